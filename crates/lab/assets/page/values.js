// Values and their text, the report, and what the page shows of it now. Whatever comes from the JSON enters the page as text.
// For tests, <html> says what happened: data-charts "drawn/expected", data-zoom how many charts are zoomed, data-errors the
// messages of every error.

const root = document.documentElement;
const errors = [];
root.dataset.errors = "";
window.addEventListener("error", (event) => {
  errors.push(event.message);
  root.dataset.errors = errors.join("\n");
});

const COLOURS = 8;
// From the ninth line on colours come again, dashed.
const DASHES = [[], [8, 4], [2, 3], [10, 3, 2, 3]];
const STAGES = ["classifier", "qdisc", "ring"];
// Of the largest latency to the smallest: beyond it a linear scale shows only the largest.
const LOG_FROM_RATIO = 15;
// Kinds of groups, those that wait for answers first, bulk last, as the verdict has them.
const ORDER = ["rr", "udprr", "dns", "cbr", "replay", "voice", "video", "short", "stream", "quic"];
// Most lines of a chart: beyond, the busiest ones.
const LINES_MAX = 32;

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
/** A unit is a function from values to texts, with the name that the downloaded files give it. */
const unit = (name, text) => Object.assign(text, { unit: name });
const UNITS = {
  time: unit("ns", (v) => scaled(v, "s", ["n", "µ", "m", ""])),
  rate: unit("bit/s", (v) => scaled(v, "bit/s", DECIMAL)),
  size: unit("bytes", (v) => scaled(v, "B", DECIMAL)),
  count: unit("packets", (v) => scaled(v, "", DECIMAL).trimEnd()),
  perSecond: unit("1/s", (v) => `${Number(v.toPrecision(4))}/s`),
  share: unit("share", (v) => `${Number((v * 100).toFixed(1))} %`),
  index: unit("index", (v) => String(Number(v.toFixed(3)))),
  percent: unit("%", (v) => `${Number(v.toFixed(1))} %`),
};
const UNIT_NAMED = {
  ns: UNITS.time, "bit/s": UNITS.rate, bytes: UNITS.size, packets: UNITS.count,
  "1/s": UNITS.perSecond, share: UNITS.share, index: UNITS.index,
};
const seconds = unit("s", (v) => `${Number(v.toFixed(3))} s`);

function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

// ---- What the page shows now ----

const data = JSON.parse(document.getElementById("data").textContent) ?? {};
const policies = list(data.policies);
const reals = list(data.lines);
const nameOf = (of) => String(of?.name ?? "");
const step = (number(data.step_ns) ?? 1e8) / 1e9;
const warmup = (number(data.warmup_ns) ?? 0) / 1e9;

/** A line of a chart. `key` is its key in the bar: one key shows or hides its lines in every chart. */
const lineOf = (name, k, key = null) => ({
  name, key, colour: `p${k % COLOURS}`, dash: DASHES[Math.floor(k / COLOURS) % DASHES.length],
});
const ofPolicies = policies.map((p, k) => lineOf(nameOf(p), k, k));
const ofReals = reals.map((r, i) => ({
  name: nameOf(r), key: policies.length + i, colour: "ink", dash: DASHES[i % DASHES.length],
}));
const keys = [...ofPolicies, ...ofReals];
// Where packets wait: below each policy of a trial, at each direction of each link of a scenario.
const places = Array.isArray(data.ways) ? data.ways : policies;
const ofPlaces = Array.isArray(data.ways) ? places.map((way, k) => lineOf(nameOf(way), k)) : ofPolicies;

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
  const rank = ({ kind }) => (ORDER.includes(kind) ? ORDER.indexOf(kind) : ORDER.length);
  return [...all.values()].sort((a, b) => rank(a) - rank(b));
}

/** Colours as the style sheet has them for the theme of the moment: a canvas cannot read `light-dark()` itself. */
function readColours() {
  const probe = root.appendChild(element("i"));
  const read = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const names = ["muted", "grid", "line", "shade", "ink", "card", ...Array.from({ length: COLOURS }, (_, k) => `p${k}`)];
  ink = Object.fromEntries(names.map((name) => [name, read(name)]));
  probe.remove();
}
