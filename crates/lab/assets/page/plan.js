// What the page draws: every chart with its place, its title and its lines.

/** A line of each policy, with what `read` returns of it. */
const perPolicy = (read) => policies.map((p, k) => ({ ...ofPolicies[k], values: read(p ?? {}) }));
const perPlace = (read) => places.map((p, k) => ({ ...ofPlaces[k], values: read(p ?? {}) }));
/** A line of each real line that has what `read` returns. */
const perReal = (read) => reals.flatMap((real, i) => {
  const values = read(real ?? {});
  return Array.isArray(values) ? [{ ...ofReals[i], values: numbers(values) }] : [];
});
/** The same over time, at the times of the file, as long as the runs are: longer, it would squeeze them. */
const overReal = (read) => perReal(read).map((line) => ({ ...line, ...during(reals[line.key - policies.length], line.values) }));
function during(real, values) {
  const at = numbers(real?.at_ns).map((ns) => ns / 1e9);
  const end = (number(data.time_ns) ?? Infinity) / 1e9;
  const kept = at.filter((s) => s !== null && s <= end).length;
  return { at: at.slice(0, kept), values: values.slice(0, kept) };
}

const isBulk = (g) => g?.kind === "stream" || g?.kind === "quic";
const isAsked = (g) => g.kind === "rr" || g.kind === "udprr";
const asksFor = {
  rr: "request to response", udprr: "request to response", dns: "question to answer", stream: "TCP's RTT",
  cbr: "one way", replay: "one way", voice: "one way", video: "one way",
};
const wordOf = (g) => asksFor[g.kind] ?? "latency";
const titleOf = (g) => (g.count > 1 ? `${g.name} ×${g.count}` : g.name);

function sums(all) {
  const length = Math.max(0, ...all.map((s) => s.length));
  return Array.from({ length }, (_, i) => all.reduce((sum, s) => sum + (s[i] ?? 0), 0));
}

function plan() {
  const all = [];
  const add = (where, title, detail, kind, spec) => all.push({ where, title, detail, kind, spec });
  planGroups(add);
  planFlows(add);
  planRuns(add);
  planPlaces(add);
  planClasses(add);
  planGates(add);
  return all;
}

function planGroups(add) {
  const { log } = state;
  const directions = [["up", "upload"], ["down", "download"]];
  for (const [direction, word] of directions) {
    const lines = overReal((real) => real[word]?.series_bit_s);
    const bulk = (p) => list(p.groups).filter((g) => isBulk(g) && g.direction === direction);
    if (lines.length === 0) continue;
    add("#throughput", `All ${word}s`, "bulk, beside the real line", overTime, {
      unit: UNITS.rate, lines: [...perPolicy((p) => sums(bulk(p).map((g) => numbers(g.series?.throughput_bit_s)))), ...lines],
    });
  }
  for (const g of groups()) {
    const each = (read) => policies.map((_, k) => ({ ...ofPolicies[k], values: read(g.of[k] ?? {}) }));
    // A ping of the real line is beside requests only: other times begin and end elsewhere.
    const pings = (of, read) => (isAsked(g) ? of(read) : []);
    add("#distribution", titleOf(g), wordOf(g), cumulated, {
      unit: UNITS.time, log,
      lines: [...each((of) => numbers(of.latency_percents_ns)), ...pings(perReal, (real) => real.ping?.percents_ns)],
    });
    add("#latency", titleOf(g), `${wordOf(g)}, ${state.part}`, overTime, {
      unit: UNITS.time, log,
      lines: [...each((of) => numbers(of.series?.[`latency_${state.part}_ns`])), ...pings(overReal, (real) => real.ping?.series_ns)],
    });
    add("#throughput", titleOf(g), "", overTime, {
      unit: UNITS.rate, lines: each((of) => numbers(of.series?.throughput_bit_s)),
    });
  }
}

/** A chart of each policy and of each real line: its flows. */
function planFlows(add) {
  const lines = (flows) => flows.slice(0, LINES_MAX).map(({ name, ...more }, i) => ({ ...lineOf(name, i), ...more }));
  const chart = (title, left, flows) => {
    const detail = left > 0 ? `${flows.length} of ${flows.length + left} flows` : "throughput of each flow";
    if (flows.length > 0) add("#flows", title, detail, overTime, { unit: UNITS.rate, lines: lines(flows) });
  };
  policies.forEach((p, k) => {
    const bulk = list(p?.groups).filter((g) => list(g?.series?.flows_bit_s).length > 0);
    const flows = bulk.flatMap((g) => list(g.series.flows_bit_s).map((values, i) => ({
      name: list(g.series.flows_bit_s).length > 1 ? `${nameOf(g)} ${i + 1}` : nameOf(g), values: numbers(values),
    })));
    const members = bulk.reduce((n, g) => n + (number(g.count) ?? 0), 0);
    chart(ofPolicies[k].name, members - Math.min(flows.length, LINES_MAX), flows.slice(0, LINES_MAX));
  });
  reals.forEach((real, i) => {
    const flows = ["upload", "download"].flatMap((way) => list(real?.[way]?.flows));
    chart(ofReals[i].name, 0, flows.map((f) => ({ name: nameOf(f), ...during(real, numbers(f?.series_bit_s)) })));
  });
}

/** A chart of each measure: every run of every policy. */
function planRuns(add) {
  const known = new Map();
  const named = groups();
  policies.forEach((p, k) => {
    for (const m of list(p?.measures)) {
      const id = JSON.stringify([m?.group ?? null, m?.measure]);
      if (!known.has(id)) known.set(id, { of: m, values: policies.map(() => []) });
      known.get(id).values[k] = numbers(m?.runs);
    }
  });
  for (const { of, values } of known.values()) {
    const group = named.find((g) => g.name === of.group);
    const some = values.flat().filter((v) => v !== null);
    const unit = UNIT_NAMED[of.unit] ?? UNITS.count;
    // Of one run there is no spread; equal values have none either.
    if (Math.max(0, ...values.map((v) => v.length)) < 2 || new Set(some.map(unit)).size < 2) continue;
    add("#runs", group ? titleOf(group) : "Bottleneck", String(of.label ?? of.measure), strips, {
      unit, lines: policies.map((_, k) => ({ ...ofPolicies[k], values: values[k] })),
    });
  }
}

function planPlaces(add) {
  const stage = (p, name) => list(p.stages).find((s) => s?.stage === name);
  const waits = (name) => perPlace((p) => numbers(stage(p, name)?.series?.[`${state.part}_ns`]));
  const { log } = state;
  add("#queues", "Delay in the qdiscs", state.part, overTime, { unit: UNITS.time, log, lines: waits("qdisc") });
  add("#queues", "Delay in the ring", state.part, overTime, { unit: UNITS.time, log, lines: waits("ring") });
  add("#queues", "Backlog", "in all qdiscs, mean of each step", overTime, {
    unit: UNITS.size, lines: perPlace((p) => numbers(list(p.classes)[0]?.series?.backlog_bytes)),
  });
  add("#queues", "Ring", "bytes in the device, mean of each step", overTime, {
    unit: UNITS.size, lines: perPlace((p) => numbers(p.device?.series?.ring_bytes)),
  });
  add("#queues", "Drops", "packets per step, all qdiscs", overTime, {
    unit: UNITS.count, stepped: true, lines: perPlace((p) => sums(list(p.classes).map((c) => numbers(c?.series?.drops)))),
  });
  add("#stages", "Time in each stage", "mean", bars, {
    labels: STAGES, unit: UNITS.time, lines: perPlace((p) => STAGES.map((name) => number(stage(p, name)?.mean_ns))),
  });
}

/** Charts of each place with several queues: its leaves, and the tins of a cake. */
function planClasses(add) {
  places.forEach((place, k) => {
    const all = list(place?.classes);
    const leaves = all.filter((c) => !all.some((other) => other !== c && other?.parent === c?.handle));
    const busiest = [...leaves].sort((a, b) => (number(b?.sent_bytes) ?? 0) - (number(a?.sent_bytes) ?? 0)).slice(0, LINES_MAX);
    const shown = leaves.filter((c) => busiest.includes(c));
    const part = leaves.length > shown.length ? `, ${shown.length} busiest of ${leaves.length}` : "";
    const chart = (detail, unit, lines) => add("#parts", ofPlaces[k].name, detail, overTime, { unit, lines });
    if (leaves.length > 1) {
      const each = (key) => shown.map((c, i) => ({ ...lineOf(`${c.handle} ${c.kind}`, i), values: numbers(c.series?.[key]) }));
      chart(`throughput of each class${part}`, UNITS.rate, each("throughput_bit_s"));
      chart(`backlog of each class${part}`, UNITS.size, each("backlog_bytes"));
    }
    const tins = leaves.flatMap((c) => list(c?.parts).map((tin) => ({ tin, name: leaves.length > 1 ? `${c.handle} ${tin?.name}` : nameOf(tin) })));
    if (tins.length > 1) {
      const each = (key) => tins.slice(0, LINES_MAX).map(({ tin, name }, i) => ({ ...lineOf(name, i), values: numbers(tin.series?.[key]) }));
      chart("arrivals at each tin", UNITS.rate, each("arrived_bit_s"));
      chart("backlog of each tin, end of each step", UNITS.size, each("backlog_bytes"));
      chart("delay of each tin, cake's own mean", UNITS.time, each("delay_ns"));
    }
  });
}

/** A picture of each schedule of gates: a cycle of it. */
function planGates(add) {
  places.forEach((place, k) => {
    const gates = list(place?.classes).map((c) => c?.gates).find((g) => number(g?.cycle_ns) > 0);
    if (!gates) return;
    const spans = (all) => list(all).map(numbers).filter(([from, to]) => from !== null && to !== null && to !== undefined);
    // The highest class goes first.
    const lines = list(gates.classes).slice(0, LINES_MAX).map((c, i) => ({
      ...lineOf(`class ${number(c?.class) ?? i}`, i),
      frames: spans(c?.frames_ns),
      openings: spans(list(c?.openings).map((o) => [o?.from_ns, o?.to_ns, o?.guard_ns])),
      about: c?.longest_bytes > 0 ? `queues ${c.queues}, longest frame ${c.longest_bytes} B` : `queues ${c?.queues}, no frames`,
      values: [0],
    })).reverse();
    const begin = number(gates.begin_ns);
    const cut = gates.whole === false ? ", its last frames" : "";
    const detail = `a cycle of ${UNITS.time(gates.cycle_ns)}${begin === null ? "" : ` from ${seconds(begin / 1e9)}`}${cut}`;
    add("#gates", ofPlaces[k].name, detail, gantt, { unit: UNITS.time, cycle: gates.cycle_ns, lines });
  });
}
