// Draws all charts, and does to all of them what is done to one.

function drawAll() {
  const zoom = charts.find((c) => c.zoomed)?.zoomed ?? null;
  charts.forEach((c) => c.plot?.destroy());
  for (const grid of document.querySelectorAll(".grid")) grid.replaceChildren();
  readColours();
  charts = plan().map(place);
  for (const chart of charts) if (!chart.empty) (isPicture(chart) ? drawPicture : draw)(chart);
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
  card.classList.toggle("picture", isPicture(chart));
  // Before drawing: what is hidden has no width.
  host.hidden = false;
  grid.parentElement.hidden = false;
  grid.append(card);
  const empty = !chart.spec.lines.some((line) => line.values.some((v) => v !== null));
  const whole = { ...chart, body, empty, drawn: empty };
  if (empty) body.append(element("div", "nodata", "no data"));
  else head.append(savers(["CSV", "JSON", "SVG"], "this chart", (form) => chartFile(whole, form)));
  return whole;
}

function draw(chart) {
  const { data: values, options } = chart.kind(chart.spec);
  const hooks = options.hooks ?? {};
  options.hooks = { ...hooks, draw: [...(hooks.draw ?? []), () => { chart.drawn = true; }], setSeries: [(_u, i, change) => showAll(chart, i, change)] };
  chart.timed = chart.kind === overTime;
  chart.plot = new uPlot({ ...size(chart), padding: [10, 16, 0, 0], ...options }, values, chart.body);
  followTouch(chart.plot);
  // Long names are cut; the whole one is a title.
  chart.body.querySelectorAll(".u-label").forEach((label) => { label.title = label.textContent; });
}

function drawPicture(chart) {
  chart.body.replaceChildren(chart.kind(chart.spec, size(chart).width));
  chart.drawn = true;
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

/** Each chart shows its whole time again: a real line may be longer than the runs. */
function resetZoom() {
  const timed = charts.filter((c) => c.timed && c.plot);
  echo(() => timed.forEach(({ plot }) => plot.setScale("x", { min: plot.data[0][0], max: plot.data[0].at(-1) })));
  if (timed.length > 0) noteZoom(timed[0].plot, timed[0].plot.data[0][0], timed[0].plot.data[0].at(-1));
}

/** A key of a chart's own legend: it acts on that chart alone, unless its line has a key in the bar. */
function showAll(chart, index, change) {
  if (index == null || change.show === undefined) return;
  const { key } = chart.spec.lines[index - 1];
  if (key !== null) show(key, change.show);
}

function show(key, visible) {
  echo(() => {
    visible ? state.hidden.delete(key) : state.hidden.add(key);
    for (const chart of charts) {
      if (isPicture(chart) && !chart.empty) drawPicture(chart);
      chart.spec.lines.forEach((line, i) => {
        const shown = chart.plot?.series[i + 1].show;
        if (line.key === key && chart.plot && shown !== visible) chart.plot.setSeries(i + 1, { show: visible });
      });
    }
    document.querySelectorAll(".key")[key]?.setAttribute("aria-pressed", visible);
  });
}

// ---- Legend, switches, theme ----

function button(text, action) {
  const node = element("button", "", text);
  node.type = "button";
  node.addEventListener("click", () => action(node));
  return node;
}

function keyOf(line) {
  const node = button("", () => show(line.key, state.hidden.has(line.key)));
  node.className = "key";
  node.title = `${line.name}: show or hide`;
  node.setAttribute("aria-pressed", "true");
  const dot = element("i", "dot");
  dot.style.setProperty("--p", `var(--${line.colour})`);
  node.append(dot, element("span", "", line.name));
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
  const all = element("div", "keys");
  all.append(...keys.map(keyOf));
  const switches = element("div", "switches");
  const reset = button("Reset zoom", resetZoom);
  reset.id = "reset";
  reset.hidden = true;
  switches.append(
    reset,
    element("small", "", "Delays"),
    choice("Latency and delay over time: which percentile", [["p50", "p50"], ["p99", "p99"]], state.part, (v) => { state.part = v; }),
    choice("Scale of latency", [["linear", false], ["log", true]], state.log, (v) => { state.log = v; }),
  );
  bar.append(all, switches);
  bar.hidden = keys.length === 0;
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
    else if (isPicture(chart) && !chart.empty) drawPicture(chart);
  }
}

// ---- For tests ----

function report() {
  root.dataset.charts = `${charts.filter((c) => c.drawn).length}/${charts.length}`;
  const shown = (x) => x.max - x.min;
  const zoomed = ({ timed, plot }) => timed && plot && shown(plot.scales.x) < (plot.data[0].at(-1) - plot.data[0][0]) * 0.999;
  root.dataset.zoom = charts.filter(zoomed).length;
}

buildBar();
if (policies.length > 0) {
  const what = (form) => (form === "CSV" ? "the comparison with all runs" : "the whole report");
  document.getElementById("save").append(
    element("span", "", "Save the data:"), ...["CSV", "JSON"].map((form) => savers([form], what(form), reportFile)),
  );
}
document.getElementById("theme").append(button("", () => setTheme(isDark() ? "light" : "dark")));
document.querySelector("#theme button").id = "toggle";
setTheme(null);
watchSurroundings();
