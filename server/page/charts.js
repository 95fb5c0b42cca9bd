"use strict";
// Curves by epoch: of one job, and of a sweep's trials. Loaded before page.js, whose
// words and numbers it uses.

const SVG = "http://www.w3.org/2000/svg";
const cursors = {}; // Where the pointer is, by chart: [x, y] within it.

// Round numbers from `low` to `high`, some `count` of them.
function ticks(low, high, count, least = 0) {
  const raw = Math.max((high - low) / count, least) || 1;
  const size = 10 ** Math.floor(Math.log10(raw));
  const step = Math.max(least, [1, 2, 5, 10].map((n) => n * size).find((n) => n >= raw * 0.999));
  const all = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; ++i) {
    all.push(Number((i * step).toPrecision(12)));
  }
  return all;
}

// Draws `lines` {name, kind, points: [[epoch, value], ...]}, later ones on top.
function draw(id, lines, label) {
  const svg = $(id);
  const [width, height] = [svg.clientWidth || 480, svg.clientHeight || 200];
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.replaceChildren();
  const add = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    svg.append(made);
  };
  const [left, top, right, bottom] = [46, 20, width - 8, height - 32];
  add("text", { x: 0, y: 10 }, label);
  add("text", { x: (left + right) / 2, y: height - 3, "text-anchor": "middle" }, "epoch");
  const points = lines.flatMap((line) => line.points);
  setText($(`${id}-read`), "");
  if (!points.length) return add("path", { class: "axis", d: `M${left} ${bottom}H${right}` });
  const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)];
  let [y0, y1] = [Math.min(...ys), Math.max(...ys)];
  if (y0 === y1) [y0, y1] = [y0 - (Math.abs(y0) || 1) / 10, y1 + (Math.abs(y1) || 1) / 10];
  const atX = (x) => x1 > x0 ? left + (right - left) * (x - x0) / (x1 - x0) : (left + right) / 2;
  const atY = (y) => bottom - (bottom - top) * (y - y0) / (y1 - y0);
  for (const y of ticks(y0, y1, 4)) {
    add("path", { class: "axis", d: `M${left} ${atY(y).toFixed(1)}H${right}` });
    add("text", { x: left - 6, y: atY(y) + 4, "text-anchor": "end" }, digits(y, 5));
  }
  for (const x of ticks(x0, x1, Math.min(8, width / 60), 1)) {
    add("text", { x: atX(x), y: bottom + 15, "text-anchor": "middle" }, String(x));
  }
  for (const { kind, points: own } of lines) {
    if (!own.length) continue;
    const at = own.map(([x, y]) => `${atX(x).toFixed(1)},${atY(y).toFixed(1)}`);
    add("polyline", { class: kind, points: at.join(" ") });
    add("circle", { class: kind, cx: atX(own.at(-1)[0]), cy: atY(own.at(-1)[1]), r: kind === "over" ? 2 : 3 });
  }
  if (!cursors[id]) return;
  const [px, py] = cursors[id];
  const far = ([x, y]) => Math.abs(atX(x) - px) + Math.abs(atY(y) - py) / 4;
  const near = lines.flatMap((line) => line.points.map((point) => ({ line, point })))
    .reduce((best, one) => far(one.point) < far(best.point) ? one : best);
  const [x, y] = near.point;
  add("path", { class: "cursor", d: `M${atX(x)} ${top}V${bottom}` });
  add("circle", { class: near.line.kind, cx: atX(x), cy: atY(y), r: 4 });
  setText($(`${id}-read`), `${near.line.name ? `${near.line.name}, ` : ""}epoch ${x}: ${digits(y, 4)}`);
}

function showCurve(id, epochs, key, label, kind) {
  const points = epochs.filter((epoch) => isNumber(epoch[key])).map((epoch) => [epoch.epoch, epoch[key]]);
  draw(id, [{ kind, points }], label);
  const ys = points.map(([, y]) => y);
  const [low, high, last] = [Math.min(...ys), Math.max(...ys), ys.at(-1)].map((y) => digits(y, 4));
  setText($(`${id}-text`), points.length ? `${last} after epoch ${points.at(-1)[0]}, from ${low} to ${high} so far`
    : "No epoch has ended yet.");
}

const KINDS = ["over", "busy", "best"]; // Of trials, the lowest line first.

function showTrialCurves(sweep) {
  const kindOf = (trial) => trial.number === sweep.best_trial ? "best"
    : ["running", "waiting"].includes(trial.state) ? "busy" : "over";
  const lines = (sweep.trials || []).filter((trial) => trial.curve)
    .map((trial) => ({ kind: kindOf(trial), name: `trial ${trial.number}`,
      points: trial.curve.filter(([, y]) => isNumber(y)) }));
  lines.sort((a, b) => KINDS.indexOf(a.kind) - KINDS.indexOf(b.kind));
  draw("metric", lines, plain(sweep.metric || "metric"));
  setText($("metric-text"), counted(lines.length, "trial") + (sweep.best_trial
    ? `; the best is trial ${sweep.best_trial} with ${digits(sweep.best_metric, 4)}` : ""));
}
