"use strict";
// Tables and other lists of elements that are changed in place, and what their cells
// show. Loaded before page.js, whose words and numbers it uses.

const element = (name, text, attributes = {}) => {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
};

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

// Makes the children of `node` those that `wanted` names, by key, in place.
function keep(node, wanted, make) {
  const old = new Map([...node.children].map((child) => [child.dataset.key, child]));
  wanted.forEach((one, at) => {
    let child = old.get(one.key);
    if (!child) {
      child = make(one);
      child.dataset.key = one.key;
    }
    old.delete(one.key);
    if (node.children[at] !== child) node.insertBefore(child, node.children[at] || null);
  });
  for (const child of old.values()) child.remove();
}

// Rows {key, cells, classes, spans}; a cell is text, or a function that fills the
// <td>. `spans` are the columns of cells that have more than one.
function fill(table, rows) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells].map((head) => head.textContent);
  keep(body, rows, (one) => {
    const row = element("tr");
    let column = 0;
    one.cells.forEach((_, i) => {
      const cell = element(i ? "td" : "th", undefined, i ? {} : { scope: "row" });
      cell.colSpan = one.spans?.[i] || 1;
      if (one.labels?.includes(heads[column])) cell.dataset.label = heads[column];
      column += cell.colSpan;
      row.append(cell);
    });
    return row;
  });
  rows.forEach((one, at) => {
    const row = body.rows[at];
    row.className = one.classes || "";
    one.cells.forEach((cell, i) => {
      if (typeof cell === "function") cell(row.cells[i]);
      else setText(row.cells[i], cell);
      row.cells[i].classList.toggle("none", cell === NONE || cell === "");
    });
  });
  table.hidden = rows.length === 0;
}

const button = (text, act, attributes) => (cell) => {
  if (!cell.firstChild) {
    const made = element("button", "", { type: "button" });
    made.addEventListener("click", () => { made.act(); show(); });
    cell.append(made);
  }
  cell.firstChild.act = act;
  setText(cell.firstChild, text);
  for (const [key, value] of Object.entries(attributes)) cell.firstChild.setAttribute(key, value);
};

// A bar of parts [[share, kind], ...].
function bar(cell, parts) {
  let frame = cell.querySelector(".bar");
  if (!frame) cell.append(frame = element("span", undefined, { class: "bar", "aria-hidden": "true" }));
  frame.hidden = parts.length === 0;
  keep(frame, parts.map(([, kind]) => ({ key: kind })), (one) => element("span", undefined, { class: one.key }));
  parts.forEach(([share], i) => { frame.children[i].style.width = `${100 * Math.min(1, share)}%`; });
}

// A share as text and as a bar.
const shareCell = (share, text = percent(share)) => (cell) => {
  if (!cell.firstChild) cell.append(element("span"));
  setText(cell.firstChild, text);
  bar(cell, [[share, "work"]]);
};

// A figure and, softer, what it is of.
const figureCell = (value, name) => !isNumber(value) ? NONE : (cell) => {
  if (!cell.firstElementChild) cell.replaceChildren(document.createTextNode(""), element("small"));
  cell.firstChild.data = `${digits(value, 4)} `;
  setText(cell.lastChild, plain(name || ""));
};

// A state with what there is to say about it, and how far it is.
const stateCell = (state, why = "", share = null) => (cell) => {
  if (!cell.firstChild) {
    cell.className = "wide";
    cell.append(element("span", "", { class: "state" }), " ", element("span", "", { class: "why" }));
  }
  setText(cell.children[0], state);
  setText(cell.children[1], why);
  bar(cell, share === null ? [] : [[share, "work"]]);
};
