// The schedule of gates of a taprio as a picture: a row for each class, open times as bars, frames on the line inside them.

const GATE_ROW = 34;
// Room for the key above the rows, and for the times below them.
const [GATES_TOP, GATES_BOTTOM] = [26, 26];

/** Kinds of charts that are SVG, and no uPlot. */
const isPicture = ({ kind }) => kind === strips || kind === gantt;

function gantt({ lines, unit, cycle }, width) {
  const rows = GATES_TOP + lines.length * GATE_ROW;
  const left = Math.min(90, 12 + 7 * Math.max(...lines.map((line) => line.name.length)));
  const right = 24;
  const scale = (ns) => left + (ns / cycle) * (width - left - right);
  const node = picture(width, rows + GATES_BOTTOM);
  node.append(gateKey(left));
  for (const tick of roundTicks(0, cycle, Math.max(2, Math.floor((width - left - right) / 80)))) {
    const x = fixed(scale(tick));
    node.append(svg("line", { x1: x, x2: x, y1: GATES_TOP, y2: rows + 4, stroke: ink.grid }));
    node.append(words(x, rows + 18, unit(tick), { "text-anchor": "middle" }));
  }
  lines.forEach((line, row) => node.append(gateRow(line, GATES_TOP + row * GATE_ROW, scale, unit, cycle)));
  return node;
}

// A shape from `from` to `to`, in a row whose middle is `y`.
const box = (from, to, y, height, more) =>
  svg("rect", { x: fixed(from), y: y - height / 2, width: fixed(Math.max(1, to - from)), height, ...more });
const openBox = (from, to, y, fill) => box(from, to, y, 22, { fill, "fill-opacity": 0.25 });
const guardBox = (from, to, y, stroke) => box(from, to, y, 21, { fill: "none", stroke, "stroke-opacity": 0.7, "stroke-dasharray": "2 2" });
const frameBox = (from, to, y, fill) => box(from, to, y, 12, { fill });

/** The meaning of the shapes, in the colour of text. */
function gateKey(left) {
  const node = svg("g", {});
  let x = left;
  for (const [shape, text] of [[openBox, "open"], [guardBox, "guard band"], [frameBox, "on the line"]]) {
    const drawn = shape(x, x + 14, 12, ink.muted);
    drawn.setAttribute("height", 12);
    drawn.setAttribute("y", 6);
    node.append(drawn, words(x + 20, 16, text));
    x += 20 + text.length * 5.8 + 18;
  }
  return node;
}

function gateRow({ name, about, colour, openings, frames }, top, scale, unit, cycle) {
  const node = svg("g", {});
  const y = top + GATE_ROW / 2;
  const times = openings.map(([from, to, guard]) => `${unit(from)} to ${unit(to)}${guard > 0 ? `, guard ${unit(guard)}` : ""}`);
  node.append(svg("title", {}, `${name}: ${about}; open ${times.join("; ") || "never"}`));
  node.append(words(0, y + 4, name, { fill: ink.ink }));
  node.append(svg("line", { x1: fixed(scale(0)), x2: fixed(scale(cycle)), y1: y, y2: y, stroke: ink.line }));
  for (const [from, to, guard] of openings) {
    const last = to - (guard ?? 0);
    if (last > from) node.append(openBox(scale(from), scale(last), y, ink[colour]));
    if (to > last) node.append(guardBox(scale(last), scale(to), y, ink[colour]));
  }
  // Frames in a row touch each other: a gap tells them apart where there is room.
  for (const [from, to] of frames) {
    const [x, end] = [scale(from), scale(to)];
    node.append(frameBox(x, end - x > 4 ? end - 1 : end, y, ink[colour]));
  }
  return node;
}
