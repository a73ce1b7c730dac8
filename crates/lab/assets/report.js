"use strict";
// Draws the charts of a report from the JSON in the page. Whatever comes from the JSON enters the page as text only.
// For tests, <html> says what happened: data-charts "drawn/expected", data-zoom how many charts are zoomed, data-errors the
// messages of every error.
(() => {
  const root = document.documentElement;
  const errors = [];
  root.dataset.errors = "";
  window.addEventListener("error", (event) => {
    errors.push(event.message);
    root.dataset.errors = errors.join("\n");
  });

  const FONT = "11px system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
  const COLOURS = 8;
  // From the ninth policy on colours come again, dashed.
  const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
  // One width for the y axis of every chart, so that the same moment stands below the same moment.
  const AXIS_WIDTH = 68;
  const PERCENTILES = ["p50", "p95", "p99", "max"];
  // Charts over time share the cursor; zoom goes through `zoomAll`, which also knows about the reset.
  const SYNC = { key: "time", scales: ["x", null], filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } };
  const STAGES = ["classifier", "qdisc", "ring"];
  // Of the largest latency to the smallest: beyond it a linear scale shows only the largest.
  const LOG_FROM_RATIO = 15;

  // ---- Values and their text ----

  const list = (value) => (Array.isArray(value) ? value : []);
  const number = (value) => (Number.isFinite(value) ? value : null);
  const numbers = (value) => list(value).map(number);

  /** Three significant digits and a prefix, as the tables have them: 1.23 ms, 18.9 Mbit/s, 4.54 kB. */
  function scaled(value, unit, prefixes) {
    if (value === 0) return "0";
    let power = 0;
    while (Math.abs(value) >= 999.5 && power + 1 < prefixes.length) {
      value /= 1000;
      power += 1;
    }
    return `${Number(value.toPrecision(3))} ${prefixes[power]}${unit}`;
  }
  const DECIMAL = ["", "k", "M", "G", "T", "P"];
  const UNITS = {
    time: (v) => scaled(v, "s", ["n", "µ", "m", ""]),
    rate: (v) => scaled(v, "bit/s", DECIMAL),
    size: (v) => scaled(v, "B", DECIMAL),
    count: (v) => scaled(v, "", DECIMAL).trimEnd(),
  };
  const seconds = (v) => `${Number(v.toFixed(3))} s`;

  function element(tag, className, text) {
    const node = document.createElement(tag);
    if (className) node.className = className;
    if (text !== undefined) node.textContent = text;
    return node;
  }

  // ---- What the page shows now ----

  const data = JSON.parse(document.getElementById("data").textContent) ?? {};
  const policies = list(data.policies);
  const names = policies.map((p) => String(p?.name ?? ""));
  const step = (number(data.step_ns) ?? 1e8) / 1e9;
  const warmup = (number(data.warmup_ns) ?? 0) / 1e9;
  const state = { hidden: new Set(), part: "p99", log: latenciesAreFarApart(), theme: null };
  let charts = [];
  let ink = {};

  function latenciesAreFarApart() {
    const all = policies.flatMap((p) => list(p?.groups))
      .flatMap((g) => [g?.latency?.p50_ns, g?.latency?.p99_ns])
      .filter((v) => v > 0);
    return all.length > 0 && Math.max(...all) / Math.min(...all) > LOG_FROM_RATIO;
  }

  /** Groups of all policies by name, in order; `of[k]` is policy k's, or nothing. */
  function groups() {
    const all = new Map();
    policies.forEach((policy, k) => {
      for (const group of list(policy?.groups)) {
        const name = String(group?.name ?? "");
        if (!all.has(name)) all.set(name, { name, kind: group.kind, count: group.count, of: [] });
        all.get(name).of[k] = group;
      }
    });
    const rank = { rr: 0, cbr: 1, replay: 2, stream: 3 };
    return [...all.values()].sort((a, b) => (rank[a.kind] ?? 4) - (rank[b.kind] ?? 4));
  }

  /** Colours as the style sheet has them for the theme of the moment: a canvas cannot read `light-dark()` itself. */
  function readColours() {
    const probe = root.appendChild(element("i"));
    const read = (name) => {
      probe.style.color = `var(--${name})`;
      return getComputedStyle(probe).color;
    };
    ink = { muted: read("muted"), grid: read("grid"), line: read("line"), shade: read("shade"), text: read("ink") };
    ink.policy = names.map((_, k) => read(`p${k % COLOURS}`));
    probe.remove();
  }

  // ---- Scales ----

  function linearRange(_u, _min, max) {
    return [0, max > 0 ? max * 1.08 : 1];
  }

  function logRange(_u, min, max) {
    if (!(min > 0)) return [1, 10];
    return max / min < 2 ? [min / 2, max * 2] : [min / 1.3, max * 1.3];
  }

  /** Zoomed out, the axis is the whole run and not only the middles of its steps. */
  function timeRange(xs, length) {
    return (_u, min, max) => (min == null || (min <= xs[0] && max >= xs[length - 1]) ? [0, length * step] : [min, max]);
  }

  /** Ticks of a logarithmic scale: 1-2-5, or sparser where there are many decades, so that they stay apart. */
  function logTicks(_u, _axis, min, max) {
    for (const [mantissas, decades] of [[[1, 2, 5], 1], [[1, 3], 1], [[1], 1], [[1], 2], [[1], 4]]) {
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

  function axes(unit, log, x) {
    const common = {
      font: FONT,
      stroke: () => ink.muted,
      grid: { stroke: () => ink.grid, width: 1 },
      ticks: { show: false },
    };
    const y = { ...common, size: AXIS_WIDTH, gap: 6, values: (_u, ticks) => ticks.map((v) => (v === null ? "" : unit(v))) };
    if (log) Object.assign(y, { splits: logTicks, filter: (_u, ticks) => ticks });
    return [{ ...common, size: 26, gap: 6, ...x }, y];
  }

  /** Values that stand alone, which a line cannot show. */
  function lonely(u, k) {
    const values = u.data[k];
    const alone = values.flatMap((v, i) => (v != null && values[i - 1] == null && values[i + 1] == null ? [i] : []));
    return alone.length > 0 ? alone : null;
  }

  /** What the legend of a chart reads at the cursor; nothing while there is no cursor. */
  function reading(v, index, unit) {
    if (index == null) return "";
    return v == null ? "–" : unit(v);
  }

  function line(k, unit, more) {
    return {
      label: names[k],
      show: !state.hidden.has(k),
      stroke: () => ink.policy[k],
      width: 2,
      dash: DASHES[Math.floor(k / COLOURS) % DASHES.length],
      value: (_u, v, _k, i) => reading(v, i, unit),
      points: { show: () => false, filter: lonely, size: 6, fill: () => ink.policy[k] },
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

  // ---- Kinds of charts: each gives what uPlot needs ----

  /** A line per policy over time. `series[k]` has one value per step. */
  function overTime({ series, unit, log = false, stepped = false }) {
    const length = Math.max(0, ...series.map((s) => s.length));
    const at = stepped ? 0 : 0.5;
    const xs = Array.from({ length }, (_, i) => (i + at) * step);
    const ys = series.map((s) => xs.map((_, i) => {
      const v = s[i] ?? null;
      return log && !(v > 0) ? null : v;
    }));
    const shape = stepped ? { paths: uPlot.paths.stepped({ align: 1 }) } : {};
    return {
      data: [xs, ...ys],
      options: {
        scales: { x: { time: false, range: timeRange(xs, length) }, y: yScale(log) },
        axes: axes(unit, log, { values: (_u, ticks) => ticks.map(seconds) }),
        series: [
          { label: "time", value: (_u, v, _k, i) => reading(v, i, seconds) },
          ...names.map((_, k) => line(k, unit, shape)),
        ],
        cursor: { drag: { x: true, y: false, dist: 4 }, sync: SYNC },
        hooks: { drawClear: [shadeWarmup], setScale: [zoomAll] },
      },
    };
  }

  /** A few named places on the x axis and a marked line per policy. */
  function overNames({ labels, series, unit, log }) {
    const ys = series.map((s) => labels.map((_, i) => {
      const v = s[i] ?? null;
      return log && !(v > 0) ? null : v;
    }));
    const points = (k) => ({ points: { show: true, size: 7, fill: () => ink.policy[k] } });
    return {
      data: [labels.map((_, i) => i), ...ys],
      options: {
        scales: { x: { time: false, range: [-0.3, labels.length - 0.7] }, y: yScale(log) },
        axes: axes(unit, log, { splits: labels.map((_, i) => i), values: () => labels, grid: { show: false } }),
        series: [
          { label: "of all", value: (_u, v, _k, i) => reading(v, i, (at) => labels[at]) },
          ...names.map((_, k) => line(k, unit, points(k))),
        ],
        cursor: { drag: { x: false, y: false } },
      },
    };
  }

  /** Bars side by side at a few named places. Every bar has an x of its own, with room between the places. */
  function bars({ labels, series, unit }) {
    const slots = names.length + 1;
    const xs = labels.flatMap((_, i) => names.map((_, k) => i * slots + k));
    const ys = series.map((s, k) => labels.flatMap((_, i) => names.map((_, other) => (other === k ? s[i] ?? null : null))));
    const centres = labels.map((_, i) => i * slots + (names.length - 1) / 2);
    const paths = uPlot.paths.bars({ size: [0.82, 72] });
    const shape = (k) => ({ width: 0, fill: () => ink.policy[k], paths, points: { show: false } });
    return {
      data: [xs, ...ys],
      options: {
        // Above the highest bar stands its value.
        scales: {
          x: { time: false, range: [-1, labels.length * slots - 1] },
          y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.15 : 1] },
        },
        axes: axes(unit, false, { splits: centres, values: () => labels, grid: { show: false } }),
        series: [{}, ...names.map((_, k) => line(k, unit, shape(k)))],
        cursor: { show: false },
        legend: { live: false },
        hooks: { draw: [(u) => labelBars(u, unit)] },
      },
    };
  }

  /** A bar's value above it, where there is room: a small one beside a large one cannot be read otherwise. */
  function labelBars(u, unit) {
    const { ctx } = u;
    const room = u.valToPos(1, "x", true) - u.valToPos(0, "x", true);
    ctx.save();
    ctx.font = scaledFont();
    ctx.fillStyle = ink.text;
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

  // ---- All charts of a page ----

  /** What to draw: where, under which title, and how. */
  function plan() {
    const all = [];
    const add = (where, title, detail, kind, spec) => all.push({ where, title, detail, kind, spec });
    const words = { rr: "request to response", cbr: "one way", replay: "one way", stream: "TCP's RTT" };
    const word = (g) => words[g.kind] ?? "latency";
    const title = (g) => (g.count > 1 ? `${g.name} ×${g.count}` : g.name);
    const { log } = state;
    for (const g of groups()) {
      const each = (read) => names.map((_, k) => read(g.of[k] ?? {}));
      add("#percentiles", title(g), word(g), overNames, {
        labels: PERCENTILES, unit: UNITS.time, log, series: each((of) => PERCENTILES.map((p) => number(of.latency?.[`${p}_ns`]))),
      });
      add("#latency", title(g), `${word(g)}, ${state.part}`, overTime, {
        unit: UNITS.time, log, series: each((of) => numbers(of.series?.[`latency_${state.part}_ns`])),
      });
      add("#throughput", title(g), "", overTime, {
        unit: UNITS.rate, series: each((of) => numbers(of.series?.throughput_bit_s)),
      });
    }
    const each = (read) => policies.map((p) => read(p ?? {}));
    add("#queues", "Backlog", "in all qdiscs, mean of each step", overTime, {
      unit: UNITS.size, series: each((p) => numbers(list(p.classes)[0]?.series?.backlog_bytes)),
    });
    add("#queues", "Ring", "bytes in the device, mean of each step", overTime, {
      unit: UNITS.size, series: each((p) => numbers(p.device?.series?.ring_bytes)),
    });
    add("#queues", "Drops", "packets per step, all qdiscs", overTime, {
      unit: UNITS.count, stepped: true, series: each((p) => sums(list(p.classes).map((c) => numbers(c?.series?.drops)))),
    });
    add("#stages", "Time in each stage", "mean", bars, {
      labels: STAGES, unit: UNITS.time,
      series: each((p) => STAGES.map((name) => number(list(p.stages).find((s) => s?.stage === name)?.mean_ns))),
    });
    return all;
  }

  function sums(all) {
    const length = Math.max(0, ...all.map((s) => s.length));
    return Array.from({ length }, (_, i) => all.reduce((sum, s) => sum + (s[i] ?? 0), 0));
  }

  function drawAll() {
    const zoom = charts.find((c) => c.zoomed)?.zoomed ?? null;
    charts.forEach((c) => c.plot?.destroy());
    for (const grid of document.querySelectorAll(".grid")) grid.replaceChildren();
    readColours();
    charts = plan().map(place);
    for (const chart of charts) if (!chart.empty) draw(chart);
    if (zoom) zoomTo(...zoom);
    // uPlot draws in microtasks, which are over when a task begins.
    setTimeout(report, 0);
  }

  /** The chart's box; what has no value at all says so. */
  function place(chart) {
    const host = document.querySelector(chart.where);
    const grid = host.querySelector(".grid");
    const card = element("figure", "card");
    const head = element("h3", "", chart.title);
    if (chart.detail) head.append(element("small", "", chart.detail));
    const body = element("div", "plot");
    body.setAttribute("role", "img");
    body.setAttribute("aria-label", `Chart: ${chart.title} ${chart.detail}`);
    card.append(head, body);
    // Before drawing: what is hidden has no width.
    host.hidden = false;
    grid.parentElement.hidden = false;
    grid.append(card);
    const empty = !chart.spec.series.some((s) => s.some((v) => v !== null));
    if (empty) body.append(element("div", "nodata", "no data"));
    return { ...chart, body, empty, drawn: empty };
  }

  function draw(chart) {
    const { data: values, options } = chart.kind(chart.spec);
    const hooks = options.hooks ?? {};
    options.hooks = { ...hooks, draw: [...(hooks.draw ?? []), () => { chart.drawn = true; }], setSeries: [showAll] };
    chart.timed = chart.kind === overTime;
    chart.plot = new uPlot({ ...size(chart), padding: [10, 16, 0, 0], ...options }, values, chart.body);
    followTouch(chart.plot);
    // Long names are cut; the whole one is a title.
    chart.body.querySelectorAll(".u-label").forEach((label) => { label.title = label.textContent; });
  }

  /** A finger that moves sideways reads the chart; up and down it scrolls the page. */
  function followTouch(u) {
    const follow = (event) => {
      const { left, top } = u.over.getBoundingClientRect();
      const { clientX, clientY } = event.touches[0];
      u.setCursor({ left: clientX - left, top: clientY - top }, true, true);
    };
    u.over.addEventListener("touchstart", follow, { passive: true });
    u.over.addEventListener("touchmove", follow, { passive: true });
  }

  function size(chart) {
    const width = Math.max(200, Math.floor(chart.body.clientWidth));
    return { width, height: width < 420 ? 190 : 220 };
  }

  // ---- What is done to one chart is done to all ----

  let echoing = false;
  function echo(action) {
    if (echoing) return;
    echoing = true;
    try {
      action();
    } finally {
      echoing = false;
    }
  }

  function zoomAll(u, scale) {
    const { min, max } = u.scales.x;
    if (scale !== "x" || min == null || u.status !== 1) return;
    echo(() => {
      for (const chart of charts) if (chart.timed && chart.plot && chart.plot !== u) chart.plot.setScale("x", { min, max });
      noteZoom(u, min, max);
    });
  }

  function noteZoom(u, min, max) {
    const xs = u.data[0];
    const whole = min <= xs[0] && max >= xs[xs.length - 1];
    for (const chart of charts) chart.zoomed = whole || !chart.timed ? null : [min, max];
    document.getElementById("reset").hidden = whole;
    // As the charts have it, once they have all drawn.
    setTimeout(report, 0);
  }

  function zoomTo(min, max) {
    const first = charts.find((c) => c.timed && c.plot);
    if (first) setTimeout(() => first.plot.setScale("x", { min, max }), 0);
  }

  function resetZoom() {
    const first = charts.find((c) => c.timed && c.plot);
    if (first) zoomTo(first.plot.data[0][0], first.plot.data[0].at(-1));
  }

  function showAll(_u, index, change) {
    if (index == null || change.show === undefined) return;
    show(index - 1, change.show);
  }

  function show(k, visible) {
    echo(() => {
      visible ? state.hidden.delete(k) : state.hidden.add(k);
      for (const { plot } of charts) if (plot && plot.series[k + 1].show !== visible) plot.setSeries(k + 1, { show: visible });
      document.querySelectorAll(".key")[k]?.setAttribute("aria-pressed", visible);
    });
  }

  // ---- Legend, switches, theme ----

  function button(text, action) {
    const node = element("button", "", text);
    node.type = "button";
    node.addEventListener("click", () => action(node));
    return node;
  }

  function key(name, k) {
    const node = button("", () => show(k, state.hidden.has(k)));
    node.className = "key";
    node.title = `${name}: show or hide`;
    node.setAttribute("aria-pressed", "true");
    const dot = element("i", "dot");
    dot.style.setProperty("--p", `var(--p${k % COLOURS})`);
    node.append(dot, element("span", "", name));
    return node;
  }

  /** Buttons of which one is pressed. */
  function choice(label, options, current, choose) {
    const pair = element("span", "pair");
    pair.setAttribute("role", "group");
    pair.setAttribute("aria-label", label);
    pair.append(...options.map(([text, value]) => {
      const node = button(text, () => {
        for (const other of pair.children) other.setAttribute("aria-pressed", other === node);
        choose(value);
        drawAll();
      });
      node.title = label;
      node.setAttribute("aria-pressed", value === current);
      return node;
    }));
    return pair;
  }

  function buildBar() {
    const bar = document.getElementById("bar");
    const keys = element("div", "keys");
    keys.append(...names.map(key));
    const switches = element("div", "switches");
    const reset = button("Reset zoom", resetZoom);
    reset.id = "reset";
    reset.hidden = true;
    switches.append(
      reset,
      element("small", "", "Latency"),
      choice("Latency over time: which percentile", [["p50", "p50"], ["p99", "p99"]], state.part, (v) => { state.part = v; }),
      choice("Scale of latency", [["linear", false], ["log", true]], state.log, (v) => { state.log = v; }),
    );
    bar.append(keys, switches);
    bar.hidden = names.length === 0;
  }

  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (state.theme ?? (prefersDark.matches ? "dark" : "light")) === "dark";

  function setTheme(theme) {
    state.theme = theme;
    theme === null ? delete root.dataset.theme : root.dataset.theme = theme;
    const toggle = document.getElementById("toggle");
    toggle.textContent = isDark() ? "Light theme" : "Dark theme";
    drawAll();
  }

  function watchSurroundings() {
    prefersDark.addEventListener("change", () => setTheme(state.theme));
    let pending = 0;
    new ResizeObserver(() => {
      clearTimeout(pending);
      pending = setTimeout(resize, 60);
    }).observe(document.body);
    // Paper is white, and two charts wide.
    let before = null;
    window.addEventListener("beforeprint", () => { before = state.theme; setTheme("light"); charts.forEach(fitPaper); });
    window.addEventListener("afterprint", () => setTheme(before));
  }

  function fitPaper(chart) {
    const wide = chart.body.closest(".wide");
    chart.plot?.setSize({ width: wide ? 640 : 310, height: 180 });
  }

  function resize() {
    for (const chart of charts) {
      const next = size(chart);
      if (chart.plot && chart.plot.width !== next.width) chart.plot.setSize(next);
    }
  }

  // ---- For tests ----

  function report() {
    root.dataset.charts = `${charts.filter((c) => c.drawn).length}/${charts.length}`;
    const shown = (x) => x.max - x.min;
    const zoomed = ({ timed, plot }) => timed && plot && shown(plot.scales.x) < plot.data[0].length * step * 0.999;
    root.dataset.zoom = charts.filter(zoomed).length;
  }

  buildBar();
  document.getElementById("theme").append(button("", () => setTheme(isDark() ? "light" : "dark")));
  document.querySelector("#theme button").id = "toggle";
  setTheme(null);
  watchSurroundings();
})();
