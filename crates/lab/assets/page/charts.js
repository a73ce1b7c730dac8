// Kinds of charts on a canvas: each turns a specification into what uPlot needs.

const FONT_FAMILY = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const FONT = `11px ${FONT_FAMILY}`;
// One width for the y axis of every chart, so that the same moment stands below the same moment.
const AXIS_WIDTH = 68;
// Charts over time share the cursor; zoom goes through `zoomAll`, which also knows about the reset.
const SYNC = { key: "time", scales: ["x", null], filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } };

// ---- Scales ----

function linearRange(_u, _min, max) {
  return [0, max > 0 ? max * 1.08 : 1];
}

function logRange(_u, min, max) {
  if (!(min > 0)) return [1, 10];
  return max / min < 2 ? [min / 2, max * 2] : [min / 1.3, max * 1.3];
}

/** Zoomed out, the axis is the whole run and not only the middles of its steps. */
function timeRange(xs, end) {
  return (_u, min, max) => (min == null || (min <= xs[0] && max >= xs[xs.length - 1]) ? [0, end] : [min, max]);
}

/** Ticks of a logarithmic scale: 1-2-5, or sparser where there are many decades, so that they stay apart. */
function logTicks(_u, _axis, min, max) {
  for (const [mantissas, decades] of [[[1, 1.5, 2, 3, 5, 7], 1], [[1, 2, 5], 1], [[1, 3], 1], [[1], 1], [[1], 2], [[1], 4]]) {
    const ticks = [];
    for (let e = Math.floor(Math.log10(min)); e <= Math.log10(max); e += 1) {
      if (e % decades === 0) ticks.push(...mantissas.map((m) => m * 10 ** e));
    }
    const inside = ticks.filter((t) => t >= min && t <= max);
    if (inside.length <= 6) return inside;
  }
  return [];
}

function yScale(log) {
  return log ? { distr: 3, log: 10, range: logRange } : { range: linearRange };
}

// ---- Options that charts have in common ----

/** The texts of an axis; they are kept for the drawing as SVG. */
function ticked(format) {
  return (u, splits, axis) => {
    const texts = format(splits);
    (u.keptTicks ??= {})[axis] = splits.map((at, i) => [at, texts[i]]);
    return texts;
  };
}

function axes(unit, log, x) {
  const common = {
    font: FONT,
    stroke: () => ink.muted,
    grid: { stroke: () => ink.grid, width: 1 },
    ticks: { show: false },
  };
  const y = { ...common, size: AXIS_WIDTH, gap: 6, values: ticked((ticks) => ticks.map((v) => (v === null ? "" : unit(v)))) };
  if (log) Object.assign(y, { splits: logTicks, filter: (_u, ticks) => ticks });
  return [{ ...common, size: 26, gap: 6, ...x }, y];
}

/** Values that stand alone, which a line cannot show. */
function lonely(u, k) {
  const at = u.data[k].flatMap((v, i) => (v === undefined ? [] : [[v, i]]));
  const alone = at.flatMap(([v, i], n) => (v !== null && at[n - 1]?.[0] == null && at[n + 1]?.[0] == null ? [i] : []));
  return alone.length > 0 ? alone : null;
}

/** What the legend of a chart reads at the cursor; nothing while there is no cursor. */
function reading(u, k, index, unit) {
  if (index == null) return "";
  let i = index;
  while (i > 0 && u.data[k][i] === undefined) i -= 1;
  const v = u.data[k][i];
  return v == null ? "–" : unit(v);
}

const isHidden = (line) => line.key !== null && state.hidden.has(line.key);

function seriesOf(line, unit, more) {
  return {
    label: line.name,
    show: !isHidden(line),
    stroke: () => ink[line.colour],
    width: 2,
    dash: line.dash,
    value: (u, _v, k, i) => reading(u, k, i, unit),
    points: { show: () => false, filter: lonely, size: 6, fill: () => ink[line.colour] },
    ...more,
  };
}

/** The part of the time that the numbers of the tables leave out. */
function shadeWarmup(u) {
  const end = Math.min(warmup, u.scales.x.max);
  if (!(end > u.scales.x.min)) return;
  const { left, top, height } = u.bbox;
  const width = u.valToPos(end, "x", true) - left;
  u.ctx.save();
  u.ctx.fillStyle = ink.shade;
  u.ctx.fillRect(left, top, width, height);
  u.ctx.font = scaledFont();
  u.ctx.fillStyle = ink.muted;
  u.ctx.textAlign = "left";
  u.ctx.textBaseline = "top";
  const px = devicePixelRatio;
  if (u.ctx.measureText("warm-up").width + 8 * px < width) u.ctx.fillText("warm-up", left + 4 * px, top + 4 * px);
  u.ctx.restore();
}

const scaledFont = () => FONT.replace("11px", `${11 * devicePixelRatio}px`);

/** One axis for lines that have values at other places: `undefined` where a line has no place, null where it has no value. */
function aligned(lines) {
  const xs = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
  const place = new Map(xs.map((x, i) => [x, i]));
  const ys = lines.map((line) => {
    const y = new Array(xs.length).fill(undefined);
    line.x.forEach((x, i) => { y[place.get(x)] = line.y[i]; });
    return y;
  });
  return [xs, ...ys];
}

// ---- Kinds ----

/** Lines over time. A line has a value per step of the trial, or the times `at` of its values, in seconds. */
function overTime({ lines, unit, log = false, stepped = false }) {
  const middle = stepped ? 0 : 0.5;
  const shown = lines.map((line) => ({
    x: line.at ?? line.values.map((_, i) => (i + middle) * step),
    y: line.values.map((v) => (v === null || (log && !(v > 0)) ? null : v)),
  }));
  const steps = Math.max(0, ...lines.map((line) => (line.at ? 0 : line.values.length)));
  const table = aligned(shown);
  const end = Math.max(steps * step, ...lines.map((line) => line.at?.at(-1) ?? 0));
  const shape = stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {};
  return {
    data: table,
    options: {
      scales: { x: { time: false, range: timeRange(table[0], end) }, y: yScale(log) },
      axes: axes(unit, log, { values: ticked((ticks) => ticks.map(seconds)) }),
      series: [
        { label: "time", value: (_u, v, _k, i) => (i == null ? "" : seconds(v)) },
        ...lines.map((line) => seriesOf(line, unit, shape)),
      ],
      cursor: { drag: { x: true, y: false, dist: 4 }, sync: SYNC },
      hooks: { drawClear: [shadeWarmup], setScale: [zoomAll] },
    },
    x: seconds,
  };
}

/** The share of all times that are at most so long. `values` are the times at each percent, from 0 on. */
function cumulated({ lines, unit, log }) {
  const shown = lines.map(({ values }) => {
    const share = new Map();
    values.forEach((v, percent) => { if (v !== null && (v > 0 || !log)) share.set(v, percent); });
    return { x: [...share.keys()], y: [...share.values()] };
  });
  const paths = uPlot.paths.stepped({ align: 1 });
  const xRange = log ? logRange : (_u, _min, max) => [0, max > 0 ? max * 1.03 : 1];
  const x = log ? { splits: logTicks, filter: (_u, ticks) => ticks } : {};
  return {
    data: aligned(shown),
    options: {
      scales: { x: { time: false, distr: log ? 3 : 1, range: xRange }, y: { range: () => [0, 102] } },
      axes: axes(UNITS.percent, false, { ...x, values: ticked((ticks) => ticks.map((v) => (v === null ? "" : unit(v)))) }),
      series: [
        { label: "at most", value: (_u, v, _k, i) => (i == null ? "" : unit(v)) },
        ...lines.map((line) => seriesOf(line, UNITS.percent, { paths })),
      ],
      cursor: { drag: { x: false, y: false } },
    },
    x: unit,
  };
}

/** Bars side by side at a few named places. Every bar has an x of its own, with room between the places. */
function bars({ lines, labels, unit }) {
  const slots = lines.length + 1;
  const xs = labels.flatMap((_, i) => lines.map((_, k) => i * slots + k));
  const ys = lines.map((line, k) => labels.flatMap((_, i) => lines.map((_, other) => (other === k ? line.values[i] ?? null : null))));
  const centres = labels.map((_, i) => i * slots + (lines.length - 1) / 2);
  const paths = uPlot.paths.bars({ size: [0.82, 72] });
  const shape = (line) => ({ width: 0, fill: () => ink[line.colour], paths, points: { show: false } });
  return {
    data: [xs, ...ys],
    options: {
      // Above the highest bar stands its value.
      scales: {
        x: { time: false, range: [-1, labels.length * slots - 1] },
        y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.15 : 1] },
      },
      axes: axes(unit, false, { splits: centres, values: ticked(() => labels), grid: { show: false } }),
      series: [{}, ...lines.map((line) => seriesOf(line, unit, shape(line)))],
      cursor: { show: false },
      legend: { live: false },
      hooks: { draw: [(u) => labelBars(u, unit)] },
    },
    x: null,
  };
}

/** A bar's value above it, where there is room: a small one beside a large one cannot be read otherwise. */
function labelBars(u, unit) {
  const { ctx } = u;
  const room = u.valToPos(1, "x", true) - u.valToPos(0, "x", true);
  ctx.save();
  ctx.font = scaledFont();
  ctx.fillStyle = ink.ink;
  ctx.textAlign = "center";
  ctx.textBaseline = "bottom";
  u.series.forEach((series, k) => {
    if (k === 0 || !series.show) return;
    u.data[k].forEach((v, i) => {
      if (v == null || ctx.measureText(unit(v)).width > room * 0.95) return;
      ctx.fillText(unit(v), u.valToPos(u.data[0][i], "x", true), u.valToPos(v, "y", true) - 4 * devicePixelRatio);
    });
  });
  ctx.restore();
}
