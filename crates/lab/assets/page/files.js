// Files that the page saves: the values of a chart, its picture, the whole report.

/** Text as the name of a file. */
const plainName = (text) => text.replace(/[^\p{L}\p{N}.]+/gu, "-").replace(/^[-.]+|-+$/g, "").slice(0, 80) || "chart";

function save(name, type, text) {
  const link = element("a");
  link.download = name;
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** A cell of CSV (RFC 4180). A text that a spreadsheet would take for a formula begins with an apostrophe. */
function csvCell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : String(value);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const csv = (rows) => rows.map((row) => `${row.map(csvCell).join(",")}\r\n`).join("");

/** The values of a chart: columns with names and units, of one length. */
function columns(chart) {
  const { spec, kind } = chart;
  const values = { unit: kind === cumulated ? UNITS.percent.unit : spec.unit.unit };
  const line = ({ name }, all) => ({ name, ...values, values: all.map((v) => v ?? null) });
  if (kind === strips) {
    const runs = Math.max(0, ...spec.lines.map((l) => l.values.length));
    const first = number(data.seed) ?? 0;
    return [{ name: "seed", unit: "", values: Array.from({ length: runs }, (_, i) => first + i) }, ...spec.lines.map((l) => line(l, l.values))];
  }
  if (kind === gantt) {
    // A line for each opening, its guard band, and each frame.
    const spans = spec.lines.flatMap((l) => [
      ...l.openings.map(([from, to, guard]) => [l.name, "open", from, to, guard ?? 0]),
      ...l.frames.map(([from, to]) => [l.name, "frame", from, to, null]),
    ]);
    const heads = [["class", ""], ["what", ""], ["from", "ns"], ["to", "ns"], ["guard band", "ns"]];
    return heads.map(([name, unit], i) => ({ name, unit, values: spans.map((span) => span[i]) }));
  }
  if (kind === bars) return [{ name: "stage", unit: "", values: spec.labels }, ...spec.lines.map((l) => line(l, l.values))];
  const [xs, ...ys] = kind(spec).data;
  const x = kind === cumulated ? { name: "at most", unit: spec.unit.unit } : { name: "time", unit: "s" };
  return [{ ...x, values: xs.map((v) => Number(v.toPrecision(12))) }, ...spec.lines.map((l, i) => line(l, ys[i]))];
}

function chartFile(chart, form) {
  const name = plainName([data.title, chart.title, chart.detail].filter((t) => t).join(" "));
  if (form === "SVG") return save(`${name}.svg`, "image/svg+xml", saved(chart));
  const all = columns(chart);
  if (form === "JSON") {
    const head = { title: chart.title, detail: chart.detail, of: String(data.title ?? "") };
    return save(`${name}.json`, "application/json", JSON.stringify({ ...head, columns: all }, null, 1));
  }
  const head = all.map(({ name: of, unit }) => (unit ? `${of} (${unit})` : of));
  return save(`${name}.csv`, "text/csv", csv([head, ...all[0].values.map((_, i) => all.map((c) => c.values[i]))]));
}

/** Every measure of every policy, a line each, with all runs. */
function comparisonCsv() {
  const most = Math.max(0, ...policies.flatMap((p) => list(p?.measures).map((m) => list(m?.runs).length)));
  const runs = Array.from({ length: most }, (_, i) => i);
  const head = ["policy", "group", "measure", "unit", "median", "low", "high", "mark", ...runs.map((i) => `seed ${(number(data.seed) ?? 0) + i}`)];
  const cell = (v) => (typeof v === "number" || typeof v === "string" ? v : "");
  const rows = policies.flatMap((p) => list(p?.measures).map((m) => [
    nameOf(p), ...["group", "measure", "unit", "median", "low", "high", "mark"].map((key) => cell(m?.[key])),
    ...runs.map((i) => cell(list(m?.runs)[i])),
  ]));
  return csv([head, ...rows]);
}

function reportFile(form) {
  const name = plainName(String(data.title ?? "report"));
  if (form === "JSON") save(`${name}.json`, "application/json", JSON.stringify(data, null, 1));
  else save(`${name}.csv`, "text/csv", comparisonCsv());
}

/** Buttons that save something in some forms. */
function savers(forms, what, action) {
  const span = element("span", "save");
  span.append(...forms.map((form) => {
    const node = button(form, () => action(form));
    node.title = `Save ${what} as ${form}`;
    return node;
  }));
  return span;
}
