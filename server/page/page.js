"use strict";
// Shows what /api/events sends: see DaemonState in metrics_port.h. Tables (tables.js)
// are changed in place, so that focus and the screen reader's place stay; curves
// (charts.js) are drawn anew.

const RATE_SECONDS = 10;
const POLL_MS = 5000;
const MOST_ACTIVE = 6;  // Rows of jobs and sweeps above the curves; a button shows the rest.
const MOST_TRIALS = 10; // Rows of an open sweep; the same.
const ENDED = new Set(["SUCCEEDED", "FAILED", "CANCELLED", "DONE", "STOPPED"]);
const LESS_IS_BETTER = new Set(["mse", "loss"]);
// Stages in the order in which batches pass them; others come before.
// Kinds of jobs with curves: a feed has those that its script reports.
const TRAINING = new Set(["train", "feed"]);
const STAGES = ["sample", "sample_top", "sample_rest", "extract", "assemble", "train", "client"];
const $ = (id) => document.getElementById(id);

const history = [];     // The states of the last seconds, parsed.
const most = {};        // The highest rates seen.
const open = new Set(); // Sweeps whose trials are shown.
const whole = new Set(); // Lists of which all rows are shown: "active", or a sweep.
let chosen = null;      // The job or sweep that was clicked, if any.
let states = new Map(); // Of jobs and sweeps, as announced.

// ---- numbers and words

const NONE = "–";
const isNumber = (value) => Number.isFinite(value);
const digits = (value, count = 3) => {
  if (!isNumber(value)) return NONE;
  if (Math.abs(value) >= 1e7) return value.toExponential(count - 1);
  const rounded = Number(value.toPrecision(count));
  return Math.abs(value) >= 1e4 ? rounded.toLocaleString("en-US") : rounded.toString();
};
const counted = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;
const percent = (share) => `${Math.round(100 * share)}%`;
const plain = (name) => name.replaceAll("_", " ");
const joined = (...parts) => parts.filter(Boolean).join(" · ");

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; ++unit) value /= 1024;
  return `${digits(value)} ${units[unit]}`;
}

function duration(seconds) {
  seconds = Math.max(0, Math.round(seconds));
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]
    .map(([size, unit]) => {
      const n = Math.floor(seconds / size);
      seconds %= size;
      return n ? `${n} ${unit}` : "";
    })
    .filter(Boolean);
  return parts.slice(0, 2).join(" ") || "0 s";
}

// ---- series

const SERIES = /^(\w+)(?:\{(.*)\})? (\S+)$/;
const LABEL = /(\w+)="((?:[^"\\]|\\.)*)"/g;

function parse(state) {
  state.values = new Map();
  for (const line of state.series) {
    const found = SERIES.exec(line);
    if (!found) continue;
    const labels = {};
    for (const [, name, value] of (found[2] || "").matchAll(LABEL)) labels[name] = value;
    if (!state.values.has(found[1])) state.values.set(found[1], []);
    const key = line.slice(0, line.lastIndexOf(" "));
    state.values.get(found[1]).push({ key, labels, value: Number(found[3]) });
  }
  return state;
}

// The series of a name in the newest state whose labels include `labels`.
function series(name, labels = {}, state = history.at(-1)) {
  return (state.values.get(name) || [])
    .filter((one) => Object.entries(labels).every(([key, value]) => one.labels[key] === value));
}
const sum = (all) => all.reduce((total, one) => total + one.value, 0);

// What they grew by per second since the oldest state that is kept; null if unknown.
function rate(name, labels = {}) {
  const now = series(name, labels);
  const before = history[0];
  const seconds = history.at(-1).time - before.time;
  if (!now.length || seconds <= 0) return null;
  const old = new Map(series(name, labels, before).map((one) => [one.key, one.value]));
  return now.reduce((total, one) => total + Math.max(0, one.value - (old.get(one.key) || 0)), 0) / seconds;
}

// ---- lists of jobs and sweeps

const took = (one, state) => {
  const start = one.algorithm ? one.create_time : one.start_time;
  return start ? duration((one.end_time || state.time) - start) : NONE;
};
const LABELS = ["Validation", "Test", "Time"];

function progressOf(job) {
  const { progress } = job;
  if (ENDED.has(job.state) || !progress) return { text: job.waiting_reason || "", share: null };
  const last = job.epochs?.at(-1)?.epoch || 0;
  // Progress is stored twice a second, epochs always.
  if (last > progress.epoch) return { text: `epoch ${last} of ${progress.epochs}`, share: last / progress.epochs };
  const part = progress.total ? progress.done / progress.total : 0;
  const text = (progress.epochs ? `epoch ${progress.epoch} of ${progress.epochs}, ` : "") +
    plain(progress.phase) + (progress.total ? ` ${percent(part)}` : "");
  const done = progress.epochs ? (Math.max(0, progress.epoch - 1) + part) / progress.epochs : part;
  return { text, share: done };
}

function jobRow(job, state, shown) {
  const { text, share } = progressOf(job);
  const epochs = job.epochs?.length ? counted(job.epochs.at(-1).epoch, "epoch") : "";
  return {
    key: job.id, labels: LABELS, classes: `${job.state}${job === shown ? " shown" : ""}`,
    cells: [
      button(job.id, () => { chosen = job.id; }, { "aria-pressed": String(job === shown) }),
      job.model || NONE, job.dataset || NONE, plain(job.strategy || NONE),
      stateCell(job.state.toLowerCase(), job.error || text || epochs, share),
      figureCell(job.best_valid_metric, job.metric), figureCell(job.test_metric, job.metric),
      took(job, state),
    ],
  };
}

const total = (sweep) => Object.values(sweep.counts).reduce((a, b) => a + b, 0);
const endedTrials = ({ counts }) => (counts.succeeded || 0) + (counts.failed || 0) + (counts.stopped || 0);

function sweepRow(sweep, state, shown) {
  const [all, ended] = [total(sweep), endedTrials(sweep)];
  const { stopped = 0, failed = 0 } = sweep.counts;
  const over = ENDED.has(sweep.state);
  const tests = state.jobs.some((job) => job.sweep === sweep.id && job.kind === "evaluate");
  const parts = [stopped && `${stopped} stopped early`, failed && `${failed} failed`, sweep.test_fault];
  return {
    key: sweep.id, labels: LABELS, classes: `sweep ${sweep.state}${sweep === shown ? " shown" : ""}`,
    cells: [
      button(sweep.id, () => {
        if (!open.delete(sweep.id)) open.add(chosen = sweep.id);
      }, { "aria-expanded": String(open.has(sweep.id)), "aria-label": `${sweep.id}, trials` }),
      sweep.model || NONE, sweep.dataset || NONE, `${plain(sweep.algorithm)} search`,
      stateCell(`${sweep.state.toLowerCase()}${tests ? ", testing the best trial" : ""}`,
        joined(`${over && ended === all ? "" : `${ended} of `}${counted(all, "trial")}`, ...parts),
        over || !all ? null : ended / all),
      figureCell(sweep.best_metric, sweep.metric), figureCell(sweep.test_metric, testName(sweep)),
      took(sweep, state),
    ],
  };
}

// Trials may be judged by the loss; their test is by a metric.
const testName = (sweep) => sweep.metric === "loss" ? "" : sweep.metric;
// Who ended a trial early: a request, the end of the sweep, or the sweep's algorithm.
const stoppedBy = (trial) => trial.reason === "stopped by a request" ? "stopped by a request"
  : trial.reason === "the sweep was stopped" ? "stopped with the sweep" : "stopped by the sweep";

function trialRow(trial, sweep, state, shown) {
  const job = state.jobs.find((one) => one.id === trial.job);
  const name = `Trial ${trial.number}`;
  const ending = trial.state === "stopped" ? stoppedBy(trial)
    : trial.state === "running" && !job ? "queued" : trial.state;
  const epochs = trial.epochs > 0 && counted(trial.epochs, "epoch");
  // The reason of a rung says after which epoch, and then how many went on.
  const why = trial.same_as ? `same as trial ${trial.same_as}`
    : ending === "stopped by the sweep" ? trial.reason?.split(";")[0]
    : trial.state === "failed" ? joined(epochs, trial.reason) : epochs;
  const kind = { succeeded: "SUCCEEDED", failed: "FAILED", running: job ? "RUNNING" : "" }[trial.state] || "";
  return {
    key: `${sweep.id}/${trial.number}/${job ? "job" : ""}`, labels: LABELS, spans: [1, 3],
    classes: `trial ${kind}${job && job === shown ? " shown" : ""}`,
    cells: [
      job ? button(name, () => { chosen = job.id; }, { "aria-pressed": String(job === shown) }) : name,
      trial.parameters || NONE,
      stateCell(ending + (trial.number === sweep.best_trial ? ", best" : ""),
        (job && progressOf(job).text) || why || ""),
      figureCell(trial.metric, sweep.metric), figureCell(trial.test_metric, testName(sweep)),
      job ? took(job, state) : NONE,
    ],
  };
}

function trialRows(sweep, state, shown) {
  const note = (name, text) => ({ key: `${sweep.id}/${name}`, spans: [8], classes: "trial", cells: [text] });
  if (!sweep.trials) return [note("none", `Too long to list here: hearth sweep show ${sweep.id}`)];
  const key = `${sweep.id}/more`;
  const begun = sweep.trials.filter((trial) => trial.state !== "pending");
  const seen = whole.has(key) ? sweep.trials : begun.slice(0, MOST_TRIALS);
  const rows = seen.map((trial) => trialRow(trial, sweep, state, shown));
  if (!whole.has(key) && sweep.trials.length > seen.length) {
    const show_all = button(`Show ${sweep.trials.length - seen.length} more trials`, () => whole.add(key), {});
    rows.push(note("more", show_all));
  }
  const left = total(sweep) - sweep.trials.length;
  if (whole.has(key) && left > 0) rows.push(note("left", `${left} more: hearth sweep show ${sweep.id}`));
  return rows;
}

const number = (one) => Number(one.id.slice(one.id.lastIndexOf("-") + 1));
const ACTIVE_ORDER = ["RUNNING", "PREPARING", "WAITING", "PAUSED", "QUEUED"];
const byTurn = (a, b) => ACTIVE_ORDER.indexOf(a.state) - ACTIVE_ORDER.indexOf(b.state) ||
  (a.state === "QUEUED" ? number(a) - number(b) : b.create_time - a.create_time);

function showLists(state, shown) {
  const ids = new Set(state.sweeps.map((sweep) => sweep.id));
  const single = state.jobs.filter((job) => !ids.has(job.sweep));
  const entries = [...single, ...state.sweeps];
  const rowsOf = (one) => !one.algorithm ? [jobRow(one, state, shown)]
    : [sweepRow(one, state, shown), ...(open.has(one.id) ? trialRows(one, state, shown) : [])];
  const active = entries.filter((one) => !ENDED.has(one.state)).sort(byTurn);
  const some = whole.has("active") ? active : active.slice(0, MOST_ACTIVE);
  fill($("active"), some.flatMap(rowsOf));
  $("no-active").hidden = active.length > 0;
  $("more-active").hidden = active.length <= MOST_ACTIVE;
  $("more-active").setAttribute("aria-expanded", String(whole.has("active")));
  setText($("more-active"), whole.has("active") ? "Show fewer" : `Show ${active.length - MOST_ACTIVE} more`);
  const ended = entries.filter((one) => ENDED.has(one.state)).sort((a, b) => b.end_time - a.end_time);
  fill($("ended"), ended.flatMap(rowsOf));
  $("no-ended").hidden = ended.length > 0;

  const of = (...names) => names.map((name) => `${sum(series("hearth_jobs", { state: name }))} ${name}`).join(" · ");
  const longest = sum(series("hearth_queue_longest_seconds"));
  setText($("queue"), of("running", "preparing", "waiting", "queued").replace(" · 0 preparing", "") +
    (longest > 0 ? ` (for up to ${duration(longest)})` : ""));
  setText($("outcomes"), of("succeeded", "failed", "cancelled") +
    (state.sweeps.length ? " (with the jobs of trials)" : ""));
  announce([...single, ...state.sweeps]);
}

// Changes of state, for those who do not see the tables.
function announce(entries) {
  const now = new Map(entries.map((one) => [one.id, one.state]));
  const changes = [...now].filter(([id, value]) => states.size && states.get(id) !== value)
    .map(([id, value]) => `${id} ${value.toLowerCase()}`);
  if (changes.length) setText($("news"), changes.join(", "));
  states = now;
}

function shownOf(state) {
  const all = [...state.jobs.filter((job) => TRAINING.has(job.kind)), ...state.sweeps];
  const working = all.filter((one) => one.state === "RUNNING" || one.state === "PREPARING");
  const begun = all.filter((one) => !one.sweep && (one.algorithm || one.start_time));
  return [...state.jobs, ...state.sweeps].find((one) => one.id === chosen) ||
    working.find((one) => !one.sweep) || working.find((one) => one.algorithm) || working[0] ||
    begun.sort((a, b) => b.create_time - a.create_time)[0] || null;
}

// ---- the shown job or sweep

function showFigures(figures) {
  const seen = figures.filter(([, value]) => value !== null && value !== undefined && value !== NONE);
  keep($("figures"), seen.map(([name]) => ({ key: name })), ({ key }) => {
    const made = element("div");
    made.append(element("dt", key), element("dd"));
    made.lastChild.append(document.createTextNode(""), element("small"));
    return made;
  });
  seen.forEach(([, value, about = "", lead = false], i) => {
    const made = $("figures").children[i];
    made.classList.toggle("lead", lead);
    made.lastChild.firstChild.data = `${value} `;
    setText(made.lastChild.lastChild, about);
  });
}

// The stages of a running job, the one that is most at work first in `figures`.
function workFigures(job) {
  const labels = { job: job.id };
  const turn = (one) => STAGES.indexOf(one.labels.stage);
  const busy = series("hearth_stage_busy_seconds_total", labels).sort((a, b) => turn(a) - turn(b));
  const stages = busy.map((one) => {
    const of = { job: job.id, stage: one.labels.stage };
    const parts = ["busy", "starved", "blocked"].map((kind) => rate(`hearth_stage_${kind}_seconds_total`, of) || 0);
    const all = parts.reduce((a, b) => a + b, 0) || 1;
    return { name: of.stage, shares: parts.map((part) => part / all),
      active: parts.some((part) => part > 0), queue: sum(series("hearth_stage_queue_length", of)) };
  });
  const first = stages.filter((stage) => stage.active).sort((a, b) => b.shares[0] - a.shares[0])[0];
  fill($("stages"), stages.map((stage) => ({ key: stage.name, classes: stage === first ? "bottleneck" : "",
    cells: [stage.name, ...stage.shares.map(percent), String(stage.queue),
      (cell) => bar(cell, stage.shares.map((share, i) => [share, ["work", "input", "room"][i]]))] })));
  const levels = series("hearth_cache_hits_total", labels).map((one) => {
    const of = { job: job.id, level: one.labels.level };
    const hits = rate("hearth_cache_hits_total", of) || 0;
    return { level: of.level, hits, asked: hits + (rate("hearth_cache_misses_total", of) || 0) };
  }).filter((one) => one.asked > 0);
  fill($("cache"), levels.map((one) => ({ key: one.level,
    cells: [plain(one.level), shareCell(one.hits / one.asked)] })));
  $("no-cache").hidden = levels.length > 0;
  // Each level is asked for what the one before it has not.
  const asked = Math.max(...levels.map((one) => one.asked));
  const wait = rate("hearth_io_wait_seconds_total", labels);
  const batches = rate("hearth_train_batches_total", labels);
  return [
    ["Bottleneck", first ? first.name : null, first && `busy ${percent(first.shares[0])} of its time`, true],
    ["Speed", isNumber(batches) ? digits(batches) : null, "batches/s"],
    ["Read wait", isNumber(wait) ? digits(wait, 2) : null, "threads on average"],
    ["Cache hits", levels.length ? percent(levels.reduce((all, one) => all + one.hits, 0) / asked) : null, "of rows"],
  ];
}

// Shows a job or a sweep; returns the job whose work is shown, if there is one.
function showJob(state, job) {
  const over = ENDED.has(job.state);
  setText($("job-title"), job.id);
  const what = joined(job.model || job.kind, job.dataset).replace(" · ", " on ");
  setText($("job-about"), joined(what, plain(job.strategy || ""), job.state.toLowerCase()));
  const figures = over ? [] : workFigures(job);
  const epochs = job.epochs || [];
  showFigures([...figures,
    ["Test", digits(job.test_metric, 4), plain(job.metric || "")],
    ["Best validation", digits(job.best_valid_metric, 4), joined(plain(job.metric || ""), `epoch ${job.best_epoch}`)],
    over && ["Epochs", epochs.length ? String(epochs.at(-1).epoch) : null],
    over && ["Time", took(job, state)],
    ...(job.machine_changes || []).map((change) =>
      ["Machines", String(change.machines), `from epoch ${change.epoch}`]),
  ].filter(Boolean));
  setText($("metric-caption"), "Validation");
  showCurve("loss", epochs, "loss", "loss", "");
  showCurve("metric", epochs, "valid_metric", plain(job.metric || "metric"), "valid");
  fill($("epochs"), epochs.slice().reverse().map((epoch) => ({ key: String(epoch.epoch),
    cells: [String(epoch.epoch), digits(epoch.loss, 4), digits(epoch.valid_metric, 4), digits(epoch.seconds)] })));
  return over ? null : job;
}

function showSweep(state, sweep) {
  const jobs = state.jobs.filter((one) => one.sweep === sweep.id && one.kind === "train");
  const job = jobs.find((one) => one.state === "RUNNING") || null;
  setText($("job-title"), sweep.id);
  setText($("job-about"), joined(`${sweep.model} on ${sweep.dataset}`, `${plain(sweep.algorithm)} search`,
    sweep.state.toLowerCase()));
  showFigures([
    ["Best so far", digits(sweep.best_metric, 4), joined(plain(sweep.metric), `trial ${sweep.best_trial}`), true],
    ["Test", digits(sweep.test_metric, 4), plain(testName(sweep))],
    ["Trials done", `${endedTrials(sweep)} of ${total(sweep)}`,
      sweep.counts.stopped ? `${sweep.counts.stopped} stopped early` : ""],
    ...(job ? workFigures(job).slice(0, 2) : []), ["Time", took(sweep, state)],
  ]);
  setText($("metric-caption"), `Trials${LESS_IS_BETTER.has(sweep.metric) ? " (less is better)" : ""}`);
  showTrialCurves(sweep);
  return job;
}

// The machines of a job of several; what they waited is of the attempt so far.
function showMachines(machines) {
  $("machines-part").hidden = machines.length === 0;
  fill($("machines"), machines.map((one) => ({ key: one.member, cells: [one.member,
    joined(plain(one.phase), one.silent_seconds >= 2 && `silent for ${duration(one.silent_seconds)}`),
    one.total ? `${one.done} of ${one.total}` : NONE, bytes(one.bytes_sent), bytes(one.bytes_received),
    `${digits(one.wait_seconds)} s`] })));
}

function showChosen(state, shown) {
  $("job").hidden = !shown;
  if (!shown) return;
  const is_sweep = Boolean(shown.algorithm);
  $("loss-figure").hidden = is_sweep;
  $("metric-key").hidden = !is_sweep;
  const has_curves = is_sweep ? shown.trials?.some((trial) => trial.curve)
    : TRAINING.has(shown.kind) && (shown.epochs.length > 0 || !ENDED.has(shown.state));
  showMachines(shown.machines || []);
  $("epochs-details").hidden = is_sweep || !shown.epochs?.length;
  $("charts").hidden = !has_curves;
  $("job-why").hidden = !(shown.error || shown.waiting_reason || shown.test_fault);
  setText($("job-why"), shown.error || shown.waiting_reason || shown.test_fault || "");
  const working = is_sweep ? showSweep(state, shown) : showJob(state, shown);
  $("work").hidden = !working || !series("hearth_stage_busy_seconds_total", { job: working.id }).length;
  setText($("stages-title"), `Where the time goes${is_sweep && working ? ` in trial ${working.trial}` : ""}`);
}

// ---- the machine

function showDisk() {
  const kind = series("hearth_reads_in_flight")[0]?.labels.queue || NONE;
  const figures = [
    ["bytes", "Read", rate("hearth_read_bytes_total"), (value) => `${bytes(value)}/s`],
    ["reads", "Reads", rate("hearth_read_operations_total"), (value) => `${digits(value)}/s`],
    ["flight", `Reads under way (${kind})`, sum(series("hearth_reads_in_flight")), digits],
    ["failed", "Failed reads", sum(series("hearth_read_operations_total", { result: "error" })), digits],
    ["free", "Free space", sum(series("hearth_data_dir_free_bytes")), bytes, false],
    ["plans", "Space taken by plans", sum(series("hearth_plan_bytes")), bytes, false],
  ];
  fill($("disk"), figures.map(([key, name, value, text, has_most = true]) => {
    most[key] = Math.max(most[key] || 0, value || 0);
    return { key, cells: [name, value === null ? NONE : text(value), has_most ? text(most[key]) : ""] };
  }));
}

function showMemory() {
  const limit = sum(series("hearth_memory_limit_bytes"));
  const owners = series("hearth_memory_reserved_bytes").filter((one) => one.value > 0)
    .sort((a, b) => b.value - a.value);
  setText($("memory-text"), `${bytes(sum(owners))} of ${bytes(limit)} are reserved; the process holds ` +
    `${bytes(sum(series("hearth_process_memory_bytes")))}.`);
  fill($("memory"), owners.map((one) => ({ key: one.labels.owner,
    cells: [plain(one.labels.owner), shareCell(limit ? one.value / limit : 0, bytes(one.value))] })));
}

// ---- states as they come

function show() {
  const state = history.at(-1);
  if (!state) return;
  const shown = shownOf(state);
  setText($("daemon"), `hearthd ${state.version}, up for ${duration(state.time - state.start_time)}`);
  $("trouble").hidden = !state.error;
  setText($("trouble"), state.error || "");
  showLists(state, shown);
  showChosen(state, shown);
  showDisk();
  showMemory();
}

function take(text) {
  const state = parse(JSON.parse(text));
  if (history.length && (state.start_time !== history.at(-1).start_time)) history.length = 0;
  history.push(state);
  while (history.length > 2 && state.time - history[0].time > RATE_SECONDS) history.shift();
  show();
}

const connected = (text, late = false) => {
  setText($("connection"), text);
  $("connection").classList.toggle("late", late);
};

// Where there are too many streams already, or the daemon is down: ask now and then,
// and begin a stream again.
function poll() {
  fetch("api/state").then((answer) => answer.text()).then((text) => {
    take(text);
    connected("Every few seconds.");
  }, () => connected("The daemon does not answer. The figures are old.", true))
    .finally(() => setTimeout(follow, POLL_MS));
}

function follow() {
  const events = new EventSource("api/events");
  events.onmessage = (event) => { take(event.data); connected("Live."); };
  events.onerror = () => { events.close(); poll(); };
}

for (const id of ["loss", "metric"]) {
  $(id).addEventListener("pointermove", (event) => { cursors[id] = [event.offsetX, event.offsetY]; show(); });
  $(id).addEventListener("pointerleave", () => { delete cursors[id]; show(); });
}
$("more-active").addEventListener("click", () => { if (!whole.delete("active")) whole.add("active"); show(); });
addEventListener("resize", show);
follow();
