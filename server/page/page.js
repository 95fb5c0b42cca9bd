"use strict";
// Shows what /api/events sends: see daemon_state.h. Tables and curves are changed
// in place, so that focus and the screen reader's place stay.

const RATE_SECONDS = 10;
const POLL_MS = 5000;
const ENDED = new Set(["SUCCEEDED", "FAILED", "CANCELLED"]);
const $ = (id) => document.getElementById(id);

const history = [];     // The states of the last seconds, parsed.
const most = {};        // The highest rates seen.
let chosen = null;      // The job that was clicked, if any.
let states = new Map(); // Of jobs, as announced.

// ---- numbers as text

const digits = (value, count = 3) => {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 1e7) return value.toExponential(count - 1);
  return Number(value.toPrecision(count)).toString();
};
const counted = (count, one) => `${count} ${one}${count === 1 ? "" : "s"}`;
const percent = (share) => `${Math.round(100 * share)}%`;

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; value >= 1024 && unit < units.length - 1; ++unit) value /= 1024;
  return `${digits(value)} ${units[unit]}`;
}

function duration(seconds) {
  seconds = Math.max(0, Math.round(seconds));
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]]
    .map(([size, unit]) => { const n = Math.floor(seconds / size); seconds %= size; return n ? `${n} ${unit}` : ""; })
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
    state.values.get(found[1]).push({ key: line.slice(0, line.lastIndexOf(" ")), labels, value: Number(found[3]) });
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

// ---- the page

const element = (name, text, attributes = {}) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Rows by key; a cell is text, or a function that fills the <td>.
function fill(table, rows) {
  const body = table.tBodies[0];
  const old = new Map([...body.rows].map((row) => [row.dataset.key, row]));
  rows.forEach(([key, ...cells], at) => {
    let row = old.get(key);
    if (!row) {
      row = element("tr");
      row.dataset.key = key;
      cells.forEach((_, i) => row.append(element(i ? "td" : "th", undefined, i ? {} : { scope: "row" })));
    }
    old.delete(key);
    if (body.rows[at] !== row) body.insertBefore(row, body.rows[at] || null);
    cells.forEach((cell, i) => typeof cell === "function" ? cell(row.cells[i]) : setText(row.cells[i], cell));
  });
  for (const row of old.values()) row.remove();
  table.hidden = rows.length === 0;
}

// A cell with a share as text and as a bar.
const bar = (share, kind) => (cell) => {
  if (!cell.firstChild) {
    const frame = element("span", undefined, { class: "bar", "aria-hidden": "true" });
    frame.append(element("span", undefined, { class: kind }));
    cell.append(document.createTextNode(""), frame);
  }
  cell.firstChild.data = percent(share);
  cell.lastChild.firstChild.style.width = percent(Math.min(1, share));
};

function progressOf(job) {
  const { progress } = job;
  if (!progress) return job.epochs?.length ? counted(job.epochs.at(-1).epoch, "epoch") : "";
  const part = progress.total ? ` ${percent(progress.done / progress.total)}` : "";
  return (progress.epochs ? `epoch ${progress.epoch} of ${progress.epochs}, ` : "") + progress.phase + part;
}

function showJobs(state) {
  fill($("jobs"), state.jobs.map((job) => [
    job.id,
    (cell) => {
      if (!cell.firstChild) {
        const button = element("button", job.id, { type: "button" });
        button.addEventListener("click", () => { chosen = job.id; show(); });
        cell.append(button);
      }
      cell.firstChild.setAttribute("aria-pressed", String(job.id === shownJob(state)?.id));
    },
    (cell) => {
      if (!cell.firstChild) cell.append(document.createTextNode(""), element("span", "", { class: "why" }));
      cell.firstChild.data = job.state.toLowerCase();
      setText(cell.lastChild, job.error || job.waiting_reason || "");
    },
    progressOf(job), job.dataset || "–", job.strategy || "–", job.model || "–",
    job.start_time ? duration((job.end_time || state.time) - job.start_time) : "–",
  ]));
  $("no-jobs").hidden = state.jobs.length > 0;
  const of = (name) => sum(series("hearth_jobs", { state: name }));
  const longest = sum(series("hearth_queue_longest_seconds"));
  setText($("queue"), `${of("running") + of("preparing")} running, ${of("queued")} queued, ` +
    `${of("waiting")} waiting${longest > 0 ? ` (the longest for ${duration(longest)})` : ""}, ` +
    `${of("succeeded")} succeeded, ${of("failed")} failed, ${of("cancelled")} cancelled.`);
  announce(state);
}

// Changes of state, for those who do not see the table.
function announce(state) {
  const now = new Map(state.jobs.map((job) => [job.id, job.state]));
  const changes = [...now].filter(([id, value]) => states.size && states.get(id) !== value)
    .map(([id, value]) => `${id} ${value.toLowerCase()}`);
  if (changes.length) setText($("news"), changes.join(", "));
  states = now;
}

const shownJob = (state) =>
  state.jobs.find((job) => job.id === chosen) ||
  state.jobs.find((job) => job.kind === "train" && !ENDED.has(job.state) && job.start_time) ||
  state.jobs.find((job) => job.kind === "train") || null;

const SVG = "http://www.w3.org/2000/svg";
function draw(svg, points) {
  svg.replaceChildren();
  const add = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    svg.append(made);
  };
  const [left, top, right, bottom] = [54, 8, 312, 138];
  add("path", { class: "axis", fill: "none", d: `M${left} ${top}V${bottom}H${right}` });
  if (!points.length) return;
  const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
  const [x0, x1, y0, y1] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const at = ([x, y]) => [
    x1 > x0 ? left + (right - left) * (x - x0) / (x1 - x0) : (left + right) / 2,
    y1 > y0 ? bottom - (bottom - top) * (y - y0) / (y1 - y0) : (top + bottom) / 2];
  add("text", { x: left - 4, y: top + 8, "text-anchor": "end" }, digits(y1));
  if (y1 > y0) add("text", { x: left - 4, y: bottom, "text-anchor": "end" }, digits(y0));
  add("text", { x: left, y: bottom + 16 }, String(x0));
  if (x1 > x0) add("text", { x: right, y: bottom + 16, "text-anchor": "end" }, String(x1));
  add("polyline", { class: "curve", points: points.map((point) => at(point).map((v) => v.toFixed(1)).join(",")).join(" ") });
  const [cx, cy] = at(points.at(-1));
  add("circle", { cx, cy, r: 3 });
}

function showCurve(name, epochs, key, label) {
  const points = epochs.filter((epoch) => Number.isFinite(epoch[key])).map((epoch) => [epoch.epoch, epoch[key]]);
  draw($(name), points);
  const ys = points.map(([, y]) => y);
  setText($(`${name}-text`), points.length
    ? `${label} ${digits(ys.at(-1), 4)} after epoch ${points.at(-1)[0]}; from ${digits(Math.min(...ys), 4)} to ${digits(Math.max(...ys), 4)} so far.`
    : "No epoch has ended yet.");
}

function showStages(job) {
  const labels = { job: job.id };
  const stages = series("hearth_stage_busy_seconds_total", labels).map((one) => {
    const of = { job: job.id, stage: one.labels.stage };
    const parts = ["busy", "starved", "blocked"].map((kind) => rate(`hearth_stage_${kind}_seconds_total`, of) || 0);
    const total = parts.reduce((a, b) => a + b, 0) || 1;
    return { name: of.stage, shares: parts.map((part) => part / total), active: parts.some((part) => part > 0),
      queue: sum(series("hearth_stage_queue_length", of)) };
  });
  fill($("stages"), stages.map(({ name, shares, queue }) =>
    [name, name, bar(shares[0], "work"), bar(shares[1], "input"), bar(shares[2], "room"), String(queue)]));
  const first = stages.filter((stage) => stage.active).sort((a, b) => b.shares[0] - a.shares[0])[0];
  const wait = rate("hearth_io_wait_seconds_total", labels);
  setText($("bound"), ENDED.has(job.state) || !first
    ? (job.test_metric !== undefined ? `Test ${job.metric}: ${digits(job.test_metric, 4)}.` : "")
    : `Bound by ${first.name}: its threads work ${percent(first.shares[0])} of the time. ` +
      (wait ? `Threads that could only wait for reads: ${digits(wait, 2)} on average. ` : "") +
      `${digits(rate("hearth_train_batches_total", labels) || 0)} batches a second.`);
}

function showCache(job) {
  const levels = series("hearth_cache_hits_total", { job: job.id }).map((one) => {
    const of = { job: job.id, level: one.labels.level };
    const hits = rate("hearth_cache_hits_total", of) || 0;
    return { level: of.level, hits, asked: hits + (rate("hearth_cache_misses_total", of) || 0) };
  }).filter((one) => one.asked > 0);
  fill($("cache"), levels.map((one) => [one.level, one.level, bar(one.hits / one.asked, "work")]));
  $("no-cache").hidden = levels.length > 0;
}

function showJob(state) {
  const job = shownJob(state);
  $("job").hidden = !job || job.kind !== "train";
  if ($("job").hidden) return;
  setText($("job-title"), `${job.id}: ${job.model} on ${job.dataset}, ${job.strategy}, ${job.state.toLowerCase()}`);
  showCurve("loss", job.epochs, "loss", "Loss");
  showCurve("metric", job.epochs, "valid_metric", job.metric || "Metric");
  fill($("epochs"), job.epochs.slice().reverse().map((epoch) =>
    [String(epoch.epoch), String(epoch.epoch), digits(epoch.loss, 4), digits(epoch.valid_metric, 4), digits(epoch.seconds)]));
  showStages(job);
  showCache(job);
}

function showDisk() {
  const kind = series("hearth_reads_in_flight")[0]?.labels.queue || "–";
  const figures = [
    ["bytes", "Read", rate("hearth_read_bytes_total"), (value) => `${bytes(value)}/s`],
    ["reads", "Reads", rate("hearth_read_operations_total"), (value) => `${digits(value)}/s`],
    ["flight", `In flight, by ${kind}`, sum(series("hearth_reads_in_flight")), digits],
    ["failed", "Failed reads", sum(series("hearth_read_operations_total", { result: "error" })), digits],
    ["free", "Free space", sum(series("hearth_data_dir_free_bytes")), bytes, false],
    ["plans", "Space of plans", sum(series("hearth_plan_bytes")), bytes, false],
  ];
  fill($("disk"), figures.map(([key, name, value, text, has_most = true]) => {
    most[key] = Math.max(most[key] || 0, value || 0);
    return [key, name, value === null ? "–" : text(value), has_most ? text(most[key]) : "–"];
  }));
}

function showMemory() {
  const limit = sum(series("hearth_memory_limit_bytes"));
  const owners = series("hearth_memory_reserved_bytes").filter((one) => one.value > 0)
    .sort((a, b) => b.value - a.value);
  setText($("memory-text"), `The process holds ${bytes(sum(series("hearth_process_memory_bytes")))}; ` +
    `${bytes(sum(owners))} of ${bytes(limit)} are reserved.`);
  fill($("memory"), owners.map((one) => [one.labels.owner, one.labels.owner, (cell) => {
    bar(limit ? one.value / limit : 0, "work")(cell);
    cell.firstChild.data = bytes(one.value);
  }]));
}

function show() {
  const state = history.at(-1);
  if (!state) return;
  setText($("daemon"), `hearthd ${state.version}, up for ${duration(state.time - state.start_time)}`);
  showJobs(state);
  showJob(state);
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

follow();
