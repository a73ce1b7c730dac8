// Charts as SVG: the runs of a measure, which the page shows so, as it does schedules, and any other chart, to be saved.

/** An element of SVG. Texts are text nodes. */
function svg(tag, attributes, ...children) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const fixed = (v) => Number(v.toFixed(1));
const words = (x, y, text, more = {}) =>
  svg("text", { x: fixed(x), y: fixed(y), fill: ink.muted, "font-size": 11, ...more }, text);

function picture(width, height, ...children) {
  return svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, "font-family": FONT_FAMILY }, ...children);
}

const cut = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

/** Value of a share of sorted values, between two of them in proportion. */
function quantile(sorted, share) {
  const at = (sorted.length - 1) * share;
  const low = Math.floor(at);
  return sorted[low] + (sorted[Math.min(low + 1, sorted.length - 1)] - sorted[low]) * (at - low);
}

/** Round values between two ends, at most `most` of them. */
function roundTicks(min, max, most) {
  const rough = (max - min) / Math.max(1, most);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) ?? rough;
  const ticks = [];
  for (let n = Math.ceil(min / step); n * step <= max && ticks.length <= most; n += 1) ticks.push(Number((n * step).toPrecision(12)));
  return ticks;
}

const ROW = 24;

/** Places of values from `left` on, `width` wide, and round values among them; logarithmic if they lie far apart. */
function stripScale(values, left, width) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const log = least > 0 && most / least > LOG_FROM_RATIO;
  const on = log ? Math.log10 : (v) => v;
  const pad = (on(most) - on(least)) * 0.06 || Math.abs(on(most)) * 0.05 || 1;
  const [from, to] = [on(least) - pad, on(most) + pad];
  const room = Math.max(2, Math.floor(width / 80));
  const rounds = (most) => (log ? logTicks(null, null, 10 ** from, 10 ** to) : roundTicks(from, to, most));
  const inside = rounds(room).length < 2 ? rounds(room * 2) : rounds(room);
  const every = Math.ceil(inside.length / room);
  return { scale: (v) => left + ((on(v) - from) / (to - from)) * width, ticks: inside.filter((_, i) => i % every === 0) };
}

/** A row for each line: every run a dot, from the first to the third quartile a box, the median a bar. */
function strips({ lines, unit }, width) {
  const shown = lines.filter((line) => !isHidden(line));
  const height = shown.length * ROW + 26;
  const all = shown.flatMap((line) => line.values.filter((v) => v !== null));
  const names = Math.min(150, Math.floor(width * 0.3));
  const { scale, ticks } = stripScale(all, names + 10, width - names - 42);
  const node = picture(width, height);
  for (const tick of ticks) {
    const x = fixed(scale(tick));
    node.append(svg("line", { x1: x, x2: x, y1: 0, y2: height - 20, stroke: ink.grid }));
    node.append(words(x, height - 6, unit(tick), { "text-anchor": "middle" }));
  }
  shown.forEach((line, row) => node.append(strip(line, row * ROW + ROW / 2, scale, unit, names)));
  return node;
}

function strip(line, middle, scale, unit, names) {
  const colour = ink[line.colour];
  const sorted = line.values.filter((v) => v !== null).sort((a, b) => a - b);
  const node = svg("g", {});
  node.append(svg("title", {}, `${line.name}: ${sorted.map(unit).join(", ")}`));
  node.append(svg("rect", { x: 0, y: middle - 5, width: 10, height: 10, rx: 3, fill: colour }));
  node.append(words(16, middle + 4, cut(line.name, Math.floor((names - 14) / 6.2)), { fill: ink.ink }));
  if (sorted.length === 0) {
    node.append(words(names + 12, middle + 4, "no run has a value"));
    return node;
  }
  if (sorted.length >= 4) {
    const [low, high] = [scale(quantile(sorted, 0.25)), scale(quantile(sorted, 0.75))];
    node.append(svg("rect", {
      x: fixed(low), y: middle - 8, width: fixed(Math.max(1, high - low)), height: 16, rx: 2,
      fill: colour, "fill-opacity": 0.18, stroke: colour, "stroke-opacity": 0.5,
    }));
  }
  // Runs of one value stand above each other; the order of seeds decides which.
  line.values.forEach((v, i) => {
    if (v === null) return;
    const y = middle + ((i % 5) - 2) * 2.6;
    node.append(svg("circle", { cx: fixed(scale(v)), cy: fixed(y), r: 2.6, fill: colour, "fill-opacity": 0.8 }));
  });
  const median = fixed(scale(quantile(sorted, 0.5)));
  node.append(svg("line", { x1: median, x2: median, y1: middle - 9, y2: middle + 9, stroke: ink.ink, "stroke-width": 2 }));
  return node;
}

// ---- Any chart, to be saved ----

/** The chart under its title, with a legend, in the colours of the page's theme. */
function saved(chart) {
  const inner = chart.plot ? drawn(chart) : chart.body.querySelector("svg").cloneNode(true);
  const [width, height] = [Number(inner.getAttribute("width")), Number(inner.getAttribute("height"))];
  const legend = chart.plot ? chart.spec.lines.filter((line) => !isHidden(line)) : [];
  const rows = Math.ceil(legend.length / 2);
  const node = picture(width + 24, height + 44 + rows * 16);
  node.append(svg("rect", { width: "100%", height: "100%", fill: ink.card }));
  const head = [chart.title, chart.detail].filter((text) => text).join(", ");
  node.append(words(12, 20, cut(head, Math.floor(width / 7)), { fill: ink.ink, "font-size": 13, "font-weight": 600 }));
  inner.setAttribute("x", 12);
  inner.setAttribute("y", 30);
  node.append(inner);
  legend.forEach((line, i) => {
    const [x, y] = [12 + (i % 2) * (width / 2), height + 44 + Math.floor(i / 2) * 16];
    node.append(svg("line", { x1: x, x2: x + 18, y1: y - 4, y2: y - 4, stroke: ink[line.colour], "stroke-width": 3, "stroke-dasharray": line.dash.join(" ") }));
    node.append(words(x + 24, y, cut(line.name, Math.floor(width / 2 / 7)), { fill: ink.ink }));
  });
  return new XMLSerializer().serializeToString(node);
}

/** What uPlot shows, once more as SVG. */
function drawn({ plot, kind, spec }) {
  const { width, height } = plot;
  const px = devicePixelRatio;
  const [left, top, w, h] = ["left", "top", "width", "height"].map((side) => plot.bbox[side] / px);
  const node = picture(width, height);
  const [xAt, yAt] = ["x", "y"].map((scale) => (v) => plot.valToPos(v, scale));
  const area = svg("svg", { x: fixed(left), y: fixed(top), width: fixed(w), height: fixed(h), overflow: "hidden" });
  if (kind === overTime && warmup > plot.scales.x.min) {
    area.append(svg("rect", { x: 0, y: 0, width: fixed(Math.max(0, xAt(Math.min(warmup, plot.scales.x.max)))), height: fixed(h), fill: ink.shade }));
  }
  for (const [at, text] of plot.keptTicks?.[1] ?? []) {
    if (at === null || text === "") continue;
    const y = fixed(top + yAt(at));
    node.append(svg("line", { x1: fixed(left), x2: fixed(left + w), y1: y, y2: y, stroke: ink.grid }));
    node.append(words(left - 6, y + 4, text, { "text-anchor": "end" }));
  }
  for (const [at, text] of plot.keptTicks?.[0] ?? []) {
    if (at === null || text === "") continue;
    node.append(words(left + xAt(at), top + h + 18, text, { "text-anchor": "middle" }));
  }
  plot.series.forEach((series, k) => {
    if (k === 0 || !series.show) return;
    area.append(kind === bars ? barsOf(plot, k, xAt, yAt, h) : pathOf(plot, k, xAt, yAt, kind === cumulated || spec.stepped === true));
  });
  node.append(area);
  return node;
}

function pathOf(plot, k, xAt, yAt, stepped) {
  const series = plot.series[k];
  const stroke = series.stroke(plot, k);
  let [path, last] = ["", null];
  plot.data[k].forEach((v, i) => {
    if (v === undefined) return;
    if (v === null) {
      last = null;
      return;
    }
    const [x, y] = [fixed(xAt(plot.data[0][i])), fixed(yAt(v))];
    path += last === null ? `M${x} ${y}` : stepped ? `H${x}V${y}` : `L${x} ${y}`;
    last = y;
  });
  const node = svg("g", {}, svg("path", { d: path, fill: "none", stroke, "stroke-width": 2, "stroke-dasharray": (series.dash ?? []).join(" ") }));
  for (const i of lonely(plot, k) ?? []) {
    node.append(svg("circle", { cx: fixed(xAt(plot.data[0][i])), cy: fixed(yAt(plot.data[k][i])), r: 3, fill: stroke }));
  }
  return node;
}

function barsOf(plot, k, xAt, yAt, height) {
  const width = Math.min(72, (xAt(1) - xAt(0)) * 0.82);
  const node = svg("g", {});
  plot.data[k].forEach((v, i) => {
    if (v == null) return;
    const [x, y] = [xAt(plot.data[0][i]), yAt(v)];
    node.append(svg("rect", { x: fixed(x - width / 2), y: fixed(y), width: fixed(width), height: fixed(Math.max(0, height - y)), fill: plot.series[k].fill(plot, k) }));
  });
  return node;
}
