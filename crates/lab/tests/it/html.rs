//! The report as a page: the content of the file, and its behaviour in a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use txweir_lab::trial::html::html;

mod sha256;

const ASSETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/assets");
/// Largest size of a page without data: pages are sent by mail.
const PAGE_BYTES_MAX: usize = 160_000;
/// Time after which a browser counts as stuck.
const BROWSER_SECONDS_MAX: u32 = 900;
/// Content of a hostile file.
const HOSTILE: &str = "</script><script>document.documentElement.dataset.planted=1</script>\
                       <img src=x onerror=\"document.documentElement.dataset.planted=2\">";

// ---- Samples ----

/// Returns a value that wanders around `base`, the same each time.
fn wander(base: u64, i: usize, salt: usize) -> u64 {
    let noise = (i.wrapping_mul(2_654_435_761).wrapping_add(salt * 97) >> 7) % 41;
    base * (80 + noise as u64) / 100
}

fn series(steps: usize, base: u64, salt: usize) -> Vec<u64> {
    (0..steps).map(|i| wander(base, i, salt)).collect()
}

fn group(name: &str, kind: &str, count: u32, steps: usize, (rate, ns): (u64, u64)) -> Value {
    // No transaction ended in some steps.
    let holes = |v: Vec<u64>| -> Vec<Option<u64>> {
        v.into_iter().enumerate().map(|(i, v)| (i % 13 != 5).then_some(v)).collect()
    };
    let flow = |n| series(if kind == "stream" { steps } else { 0 }, rate / 4, n);
    json!({
        "name": name, "kind": kind, "count": count, "throughput_bit_s": rate, "jain": 0.987,
        "retransmitted_bytes": 1460,
        "transactions_per_s": if kind == "rr" { json!(46.3) } else { Value::Null },
        "latency": {"count": 400, "mean_ns": ns, "p50_ns": ns, "p95_ns": ns * 2, "p99_ns": ns * 3, "max_ns": ns * 4},
        "lost": null, "direction": "up",
        "latency_percents_ns": (0..=100).map(|p| ns / 2 + ns * p / 40).collect::<Vec<u64>>(),
        "series": {
            "throughput_bit_s": series(steps, rate, 1),
            "flows_bit_s": (0..count as usize).map(flow).collect::<Vec<_>>(),
            "latency_p50_ns": holes(series(steps, ns, 2)),
            "latency_p99_ns": holes(series(steps, ns * 3, 3)),
        },
    })
}

/// Returns five runs a hundredth apart.
fn measure(group: Option<&str>, name: &str, unit: &str, median: f64, mark: Option<&str>) -> Value {
    // The values have so few digits that any reader of JSON reads them back exactly.
    let runs = [1.01, 0.99, 1.0, 0.98, 1.02].map(|share| (median * share * 1000.0).round() / 1000.0);
    json!({
        "group": group, "measure": name, "label": name, "unit": unit, "better": "less", "runs": runs, "median": median,
        "low": runs[3], "high": runs[4], "mark": mark,
    })
}

fn policy(name: &str, k: usize, steps: usize) -> Value {
    let ns = 600_000_000 >> (k * 2);
    let mark = (k == 1).then_some("best");
    let class = |handle: &str, parent: &str, kind: &str| {
        json!({
            "handle": handle, "parent": parent, "kind": kind, "sent_packets": 15_000, "sent_bytes": 22_000_000,
            "throughput_bit_s": 19_700_000, "drops": {"congested": 72, "overlimit": 3}, "marks": {},
            "backlog_bytes": {"mean": ns / 400, "max": ns / 100},
            "series": {
                // Two classes have other values, and each of their lines shows.
                "throughput_bit_s": series(steps, 19_700_000, k + kind.len()),
                "backlog_bytes": series(steps, ns / 400, k + 4 + kind.len()),
                "drops": series(steps, 5, k),
            },
        })
    };
    let tin = |name: &str| {
        let over = json!({
            "arrived_bit_s": series(steps, 9_000_000, name.len()), "backlog_bytes": series(steps, 9000, name.len()),
            "delay_ns": series(steps, ns, name.len()), "drops": series(steps, 2, 14),
        });
        json!({"name": name, "arrived_packets": 900, "arrived_bytes": 9000, "drops": 4, "marks": 0, "series": over})
    };
    let mut cake = class("1:2", "1:", "cake");
    cake["parts"] = json!([tin("Bulk"), tin("Voice <b>")]);
    let stage = |name: &str, ns: u64| {
        let (p95, max) = (ns * 2, ns * 3);
        let over = json!({"p50_ns": series(steps, ns, 6 + k), "p99_ns": series(steps, p95, 7 + k)});
        json!({"stage": name, "mean_ns": ns, "p50_ns": ns, "p95_ns": p95, "p99_ns": p95, "max_ns": max, "series": over})
    };
    json!({
        "name": name, "policy": "qdisc add root handle 1: prio\nqdisc add parent 1:1 fq_codel\n",
        "shown_seed": 3,
        "measures": [
            measure(Some("bulk"), "throughput_bit_s", "bit/s", 19e6 - k as f64 * 3e5, None),
            measure(Some("rr"), "transactions_per_s", "1/s", 46.3, None),
            measure(Some("rr"), "latency_p50_ns", "ns", ns as f64, mark),
            measure(Some("rr"), "latency_p99_ns", "ns", ns as f64 * 3.0, mark),
            measure(None, "utilisation", "share", 0.98, Some("equal")),
            measure(None, "marked_packets", "packets", 0.0, None),
        ],
        "groups": [
            group("bulk", "stream", 4, steps, (19_000_000 - k as u64 * 300_000, ns)),
            group("rr", "rr", 4, steps, (300_000, ns)),
        ],
        "classes": [class("1:", "root", "prio"), class("1:1", "1:", "fq_codel"), cake],
        "device": {"ring_bytes": {"mean": 4500, "max": 9000}, "bql_limit": 3000, "utilisation": 0.98,
                   "series": {"ring_bytes": series(steps, 4500, k + 9)}},
        "stages": [stage("classifier", 0), stage("qdisc", ns), stage("ring", 1_700_000)],
        "drops": {"congested": 72, "overlimit": 3}, "marks": {}, "jain": 0.97,
    })
}

fn sample(names: &[&str], steps: usize) -> Value {
    json!({
        "title": "bulk+rr over 20Mbit, RTT 20ms", "traffic": "bulk+rr", "about": "4 bulk uploads and 4 clients",
        "link_rate_bit_s": 20_000_000, "rtt_ns": 20_000_000, "ring": 1024, "time_ns": 10_000_000_000u64,
        "warmup_ns": 1_000_000_000, "seed": 1, "tcp": "a TCP",
        "interval": {"runs": 5, "low_rank": 1, "high_rank": 5, "coverage": 0.9375, "marked_from": 4},
        "fidelity": {"range": "outside", "rows": 3, "rows_inside": 2, "reasons": ["<rate> is above"],
                     "nearest": [{"name": "a&b", "inside": false}]},
        "verdict": ["rr x4 p99: 1.80 s with default, 450 us with <fq>: 4.0 times lower", "starved with x: y"],
        "step_ns": 10_000_000_000 / steps.max(1) as u64,
        "policies": names.iter().enumerate().map(|(k, name)| policy(name, k, steps)).collect::<Vec<_>>(),
    })
}

/// Returns a report in which every value of `groups`, `device` and so on is null.
fn nulls() -> Value {
    let mut report = sample(&["a", "b"], 20);
    for key in [
        "groups",
        "classes",
        "device",
        "stages",
        "drops",
        "marks",
        "jain",
        "policy",
        "measures",
        "shown_seed",
    ] {
        report["policies"][1][key] = Value::Null;
    }
    report["policies"][0]["groups"][1]["latency"] = Value::Null;
    report["policies"][0]["groups"][1]["latency_percents_ns"] = Value::Null;
    report["policies"][0]["groups"][1]["series"]["latency_p50_ns"] = json!([null, null, null]);
    report["policies"][0]["groups"][1]["series"]["latency_p99_ns"] = json!([]);
    report
}

// ---- The file ----

#[test]
fn page_is_one_small_file_that_fetches_nothing() {
    let page = html(&sample(&["default", "fq_codel.tc"], 0).to_string());
    assert!(page.len() < PAGE_BYTES_MAX, "{} bytes", page.len());
    for fetch in [" src=", " href=", "@import", "url(", "fetch(", "XMLHttpRequest", "WebSocket", "import("] {
        assert!(!page.contains(fetch), "{fetch}");
    }
    assert!(page.contains("default-src 'none'"), "the page forbids the browser to fetch");
}

#[test]
fn headline_is_there_without_javascript() {
    let page = html(&sample(&["default", "fq_codel.tc"], 3).to_string());
    let table = page.split("<section id=\"headline\">").nth(1).unwrap().split("</section>").next().unwrap();
    let words: Vec<&str> =
        table.split(['<', '>']).skip(2).step_by(2).map(str::trim).filter(|w| !w.is_empty()).collect();
    let from = words.iter().position(|w| *w == "latency p50").unwrap();
    assert_eq!(
        words[from..from + 10],
        [
            "latency p50",
            "600 ms",
            "588..612",
            "150 ms",
            "147..153",
            "latency p99",
            "1.80 s",
            "1.76..1.84",
            "450 ms",
            "441..459"
        ]
    );
    assert!(table.contains("<span class=\"best\">450 ms</span>"), "{table}");
    // Values that read alike have neither a mark nor a bar.
    assert_eq!(table.matches("<span>98.0 %</span>").count(), 2, "{table}");
    assert!(!table.contains("marked"), "no policy marks: {table}");
    let verdict = "<p class=\"verdict\">rr x4 p99: 1.80 s with default, 450 µs with &lt;fq&gt;: 4.0 times lower.</p>\
                   <p class=\"verdict\">starved with x: y.</p>";
    assert!(table.contains(verdict), "{table}");
    let runs = "Medians of 5 runs, seeds 1 to 5; beside them the 93.8 % interval (smallest to largest run), if it \
                reads otherwise. <b>best</b>: the interval overlaps no other one.";
    assert!(table.contains(runs), "{table}");
    assert!(table.contains("the one of median goodput (seed: default 3, fq_codel.tc 3)."), "{table}");
}

/// The transport stands in the head of the page, in the colour of a warning unless it lies inside
/// the recorded range.
#[test]
fn transport_and_its_fidelity_are_in_the_head_of_the_page() {
    let head = |report: &Value| {
        let page = html(&report.to_string());
        page.split("</header>").next().map(String::from).expect("a head")
    };
    let mut report = sample(&["default"], 0);
    let said = "<p class=\"transport warn\"><b>TCP:</b> a TCP. Held against Linux’s TCP: outside the recorded range: \
                &lt;rate&gt; is above; 2 of 3 like recordings agree; nearest: a&amp;b (differs).</p>";
    assert!(head(&report).contains(said), "{}", head(&report));
    report["fidelity"]["range"] = "inside".into();
    report["fidelity"]["reasons"] = json!([]);
    let said = "<p class=\"transport\"><b>TCP:</b> a TCP. Held against Linux’s TCP: inside the recorded range; 2 of 3";
    assert!(head(&report).contains(said), "{}", head(&report));
    report["fidelity"] = json!({"range": "empty", "rows": 0, "rows_inside": 0, "reasons": [], "nearest": []});
    assert!(head(&report).contains("TCP: nothing was recorded, so nothing is known.</p>"));
    for odd in [json!(null), json!({"range": "far"}), json!([1])] {
        report["fidelity"] = odd;
        assert!(head(&report).contains("<p class=\"transport\"><b>TCP:</b> a TCP.</p>"));
    }
    for odd in
        [json!({"runs": 0, "low_rank": 0, "high_rank": 0, "coverage": -1, "marked_from": 0}), json!("x")]
    {
        report["interval"] = odd;
        assert!(html(&report.to_string()).ends_with("</html>\n"));
    }
}

#[test]
fn data_is_the_json_that_was_given_and_markup_in_it_stays_text() {
    let mut report = sample(&[HOSTILE, "b"], 3);
    report["title"] = HOSTILE.into();
    report["about"] = "{{report.js}} {{data}}".into();
    report["policies"][0]["policy"] = HOSTILE.into();
    report["policies"][0]["groups"][0]["name"] = HOSTILE.into();
    report["policies"][0]["classes"][0]["drops"] = json!({HOSTILE: 1});
    report["tcp"] = HOSTILE.into();
    report["verdict"] = json!([HOSTILE]);
    report["fidelity"]["reasons"] = json!([HOSTILE]);
    for (i, key) in ["measure", "unit", "mark", "group"].iter().enumerate() {
        report["policies"][0]["measures"][i][key] = HOSTILE.into();
    }
    report["policies"][0]["classes"][2]["parts"][0]["name"] = HOSTILE.into();
    let report = with_lines(report);
    let page = html(&report.to_string());
    let data = page.split("id=\"data\">").nth(1).unwrap().split("</script>").next().unwrap();
    assert_eq!(serde_json::from_str::<Value>(data).unwrap(), report);
    assert!(!page.contains("<script>document.documentElement.dataset.planted"));
    assert!(!page.contains("<img"));
    assert_eq!(page.matches("</script").count(), 3);
    assert!(page.contains("<p class=\"about\">{{report.js}} {{data}}</p>"), "text is not a template");
}

/// Every caveat stands before the first number.
#[test]
fn caveats_are_in_the_head_of_the_page() {
    let head = |report: &Value| {
        let page = html(&report.to_string());
        page.split("</header>").next().map(String::from).expect("a head")
    };
    let mut report = sample(&["a", "b"], 3);
    let said = head(&report);
    assert!(said.contains("<b>A model:</b> virtual time"), "{said}");
    assert!(!said.contains("<b>Few runs:</b>") && !said.contains("<b>Real line:</b>"), "{said}");
    report["interval"]["runs"] = 3.into();
    let said = head(&with_lines(report));
    assert!(said.contains("<b>Few runs:</b> 3 runs of each policy; 4 at least"), "{said}");
    assert!(said.contains("<b>Real line:</b> measured by flent elsewhere"), "{said}");
    let page = html(&scenario().to_string());
    assert!(
        page.contains("<th class=\"text\">rr ×4</th><td class=\"text\">request to response</td>"),
        "a group a line"
    );
    assert!(
        page.contains("<h3 class=\"policy\">Links</h3>") && !page.contains("class=\"meter\">"),
        "no bars of one run"
    );
    let said = head(&scenario());
    assert!(
        said.contains("<p class=\"kicker\">txweir lab run</p>") && said.contains("<b>One run:</b> seed 1"),
        "{said}"
    );
}

/// The numbers of a real line stand beside those of the policies, without JavaScript.
#[test]
fn a_real_line_stands_beside_the_policies() {
    let page = html(&with_lines(sample(&["default", "b"], 3)).to_string());
    let table = page.split("Beside a real line</h3>").nth(1).unwrap().split("</table>").next().unwrap();
    for row in [
        "<td>18.0 Mbit/s</td><td>2.00 ms</td>",
        "<td>19.0 Mbit/s</td><td>3.00 ms</td>",
        "<td>–</td><td>7 ns</td>",
    ] {
        assert!(table.contains(row), "{row}: {table}");
    }
    assert!(!html(&sample(&["a"], 3).to_string()).contains("Beside a real line"));
}

#[test]
fn what_is_no_report_makes_a_page_that_says_so() {
    for text in ["", "no JSON", "[1, 2]", "null", "{\"policies\": 3}", "{\"policies\": [3, null, {}]}"] {
        let page = html(text);
        assert!(page.ends_with("</html>\n"), "{text}");
        assert!(page.contains("no data") || page.contains("<i class=\"dot\""), "{text}");
    }
    assert!(html("no JSON").contains("<h1>This report has no data</h1>"));
}

#[test]
fn vendored_files_are_the_published_ones() {
    let dir = Path::new(ASSETS).join("uplot");
    let readme = fs::read_to_string(dir.join("README.md")).unwrap();
    let mut compared = 0;
    for line in readme.lines().filter_map(|l| l.strip_prefix("    ")) {
        let (sum, name) = line.split_once("  ").unwrap();
        assert_eq!(sha256::hex(&fs::read(dir.join(name)).unwrap()), sum, "{name}");
        compared += 1;
    }
    assert_eq!(compared, 3);
    assert!(readme.contains("1.6.32") && readme.contains("uplot-1.6.32.tgz"));
}

// ---- Colours ----

/// Returns a colour of the style sheet, for the light and for the dark theme, as linear red, green
/// and blue.
fn colour(css: &str, name: &str) -> [[f64; 3]; 2] {
    let (_, rest) = css.split_once(&format!("--{name}: light-dark(")).unwrap();
    let mut both = rest.split(')').next().unwrap().split(", ");
    std::array::from_fn(|_| {
        let hex = both.next().unwrap().trim_start_matches('#');
        std::array::from_fn(|i| {
            let c = f64::from(u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).unwrap()) / 255.0;
            if c <= 0.040_45 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
        })
    })
}

/// Returns the contrast ratio of WCAG 2.1.
fn contrast(a: [f64; 3], b: [f64; 3]) -> f64 {
    let luminance = |c: [f64; 3]| 0.2126 * c[0] + 0.7152 * c[1] + 0.0722 * c[2] + 0.05;
    let (a, b) = (luminance(a), luminance(b));
    a.max(b) / a.min(b)
}

/// Converts a colour to CIE 1976 L*a*b*, white D65.
fn lab(c: [f64; 3]) -> [f64; 3] {
    let dot = |m: [f64; 3]| m[0] * c[0] + m[1] * c[1] + m[2] * c[2];
    let f = |t: f64| if t > 0.008_856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
    let x = f(dot([0.4124, 0.3576, 0.1805]).max(0.0) / 0.9505);
    let y = f(dot([0.2126, 0.7152, 0.0722]).max(0.0));
    let z = f(dot([0.0193, 0.1192, 0.9505]).max(0.0) / 1.089);
    [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
}

/// Matrices of normal, red-blind, green-blind and blue-blind vision (Machado, Oliveira and
/// Fernandes 2009, severity 1).
const EYES: [[[f64; 3]; 3]; 4] = [
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
];

#[test]
fn colours_stand_out_from_the_card_and_from_each_other_for_every_eye() {
    let css = fs::read_to_string(Path::new(ASSETS).join("report.css")).unwrap();
    let card = colour(&css, "card");
    let (ink, muted) = (colour(&css, "ink"), colour(&css, "muted"));
    let policies: [_; 8] = std::array::from_fn(|k| colour(&css, &format!("p{k}")));
    for theme in 0..2 {
        // WCAG 1.4.6 and 1.4.3 for text, 1.4.11 for lines.
        assert!(contrast(ink[theme], card[theme]) > 7.0);
        assert!(contrast(muted[theme], card[theme]) > 4.5);
        for (k, c) in policies.iter().enumerate() {
            let ratio = contrast(c[theme], card[theme]);
            assert!(ratio > 3.0, "p{k}, theme {theme}: {ratio:.2}");
        }
        for (eye, m) in EYES.iter().enumerate() {
            let seen =
                |c: [f64; 3]| lab(m.map(|r| (r[0] * c[0] + r[1] * c[1] + r[2] * c[2]).clamp(0.0, 1.0)));
            for i in 0..8 {
                for j in 0..i {
                    let (a, b) = (seen(policies[i][theme]), seen(policies[j][theme]));
                    let far = a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
                    // A difference of 2.3 is just noticeable; the first four colours, enough for
                    // most trials, are much further apart.
                    let least = if i < 4 { 25.0 } else { 15.0 };
                    assert!(far > least, "p{i} and p{j}, theme {theme}, eye {eye}: {far:.1}");
                }
            }
        }
    }
}

// ---- The browser ----

fn browser() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"].into_iter().find(|name| {
        let quiet = || Stdio::null();
        let run = Command::new(name).arg("--version").stdout(quiet()).stderr(quiet()).status();
        run.is_ok_and(|status| status.success())
    })
}

/// A folder that is removed when the test ends in any way.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("txweir-html-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Opens each case in a frame; returns the results of the driver, and the complaints of the
/// browser.
fn looked_at(browser: &str, name: &str, dark: bool, cases: &[Value]) -> (Vec<Value>, String) {
    let folder = Folder::new(name);
    let driver = include_str!("html/driver.html");
    let cases = Value::from(cases).to_string().replace('<', "\\u003c");
    let page = folder.0.join("driver.html");
    fs::write(&page, driver.replace("{{cases}}", &cases)).unwrap();
    let (out, err) = (folder.0.join("out"), folder.0.join("err"));
    let mut child = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom"])
        .args(["--enable-logging=stderr", "--virtual-time-budget=120000", "--window-size=1400,1000"])
        .arg(format!("--blink-settings=preferredColorScheme={}", if dark { 0 } else { 1 }))
        .arg(format!("--user-data-dir={}", folder.0.join("profile").display()))
        .arg(format!("file://{}", page.display()))
        .stdin(Stdio::null())
        .stdout(fs::File::create(&out).unwrap())
        .stderr(fs::File::create(&err).unwrap())
        .spawn()
        .unwrap();
    let mut left = BROWSER_SECONDS_MAX * 10;
    while child.try_wait().unwrap().is_none() {
        left -= 1;
        if left == 0 {
            child.kill().unwrap();
            child.wait().unwrap();
            panic!("{browser} did not end within {BROWSER_SECONDS_MAX} s");
        }
        thread::sleep(Duration::from_millis(100));
    }
    let (out, err) =
        (fs::read_to_string(out).unwrap(), String::from_utf8_lossy(&fs::read(err).unwrap()).into_owned());
    let result = out.split("<pre id=\"result\">").nth(1).and_then(|r| r.split("</pre>").next()).unwrap_or("");
    let result = result.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    let complaints: Vec<&str> = err.lines().filter(|l| l.contains("CONSOLE")).collect();
    let results = serde_json::from_str(&result).unwrap_or_else(|e| panic!("{e}: {result:?}\n{err}"));
    (results, complaints.join("\n"))
}

/// Returns the samples: name, report, number of charts, number of charts without data.
fn samples() -> Vec<(&'static str, Value, u32, u32)> {
    let long = "a-policy-with-quite-a-long-name-that-somebody-gave-to-a-file-for-good-reasons.tc";
    let eight =
        ["default", HOSTILE, long, "codel.tc", "prio.tc", "tbf.tc", "pfifo.tc", "fq_codel with a blank.tc"];
    // Three charts for each of two groups, five of the runs, five of the queues, one of the stages;
    // for each policy one of its flows, two of its classes, three of its tins.
    let charts = |policies: u32| 17 + 6 * policies;
    vec![
        ("two", sample(&["default", "fq_codel.tc"], 200), charts(2), 0),
        ("three", sample(&["default", "fq_codel.tc", "prio.tc"], 200), charts(3), 0),
        ("one", sample(&["default"], 100), charts(1), 0),
        ("eight", sample(&eight, 100), charts(8), 0),
        ("long", sample(&["default", "fq_codel.tc"], 20_000), charts(2), 0),
        ("a single point", sample(&["default", "fq_codel.tc"], 1), charts(2), 0),
        // All charts over time are empty: two for each group, the five of the queues, six for each
        // policy.
        ("no points", sample(&["default", "fq_codel.tc"], 0), charts(2), 21),
        // Of the second policy there is nothing, and of a group no latency over time.
        ("nulls", nulls(), charts(1), 2),
        ("real line", with_lines(sample(&["default", HOSTILE], 100)), charts(2) + 3, 0),
        ("scenario", scenario(), 6 + 1 + 6 + 5 * 2 + 1, 0),
        // The charts of the queues and of the stages say that there are no data.
        ("empty", json!({}), 6, 6),
        ("no policies", sample(&[], 3), 6, 6),
    ]
}

/// Puts a run of a real line beside a report.
fn with_lines(mut report: Value) -> Value {
    let at: Vec<u64> = (1..=300).map(|n| n * 200_000_000).collect();
    let flows = json!({
        "throughput_bit_s": 18_000_000, "series_bit_s": series(300, 18_000_000, 1),
        "flows": [{"name": "TCP upload BE", "series_bit_s": series(300, 9_000_000, 2)}],
    });
    let latency = json!({"count": 300, "mean_ns": 3, "p50_ns": 1, "p95_ns": 1, "p99_ns": 1, "max_ns": 4});
    report["lines"] = json!([{
        "name": HOSTILE, "test": "rrul", "title": HOSTILE, "host": "h", "time": "2026", "length_ns": 60_000_000_000u64,
        "at_ns": at, "upload": flows, "download": flows,
        "ping": {
            "latency": latency, "percents_ns": (0..=100).map(|p| 9_000_000 + p * 1_000_000).collect::<Vec<u64>>(),
            "series_ns": series(300, 50_000_000, 3),
        },
    }]);
    report["beside"] = json!([
        {"measure": "upload_bit_s", "label": HOSTILE, "unit": "bit/s", "lines": [18e6], "policies": [19e6, null]},
        {"measure": "x", "label": "ping p50", "unit": "ns", "lines": [2_000_000], "policies": [3_000_000, 7]},
    ]);
    report
}

/// Returns a schedule of two gates.
fn gates() -> Value {
    let opening = |from: u64, to: u64, guard: u64| json!({"from_ns": from, "to_ns": to, "guard_ns": guard});
    let class = |class: u64, openings: Value, frames: Value| {
        let (queues, longest) = ("1@0", 1514);
        json!({
            "class": class, "queues": queues, "longest_bytes": longest, "openings": openings, "frames_ns": frames,
        })
    };
    let bulk = class(0, json!([opening(150_000, 1_000_000, 121_120)]), json!([[150_000, 273_000]]));
    let control = class(1, json!([opening(0, 150_000, 16_000)]), json!([[0, 18_000]]));
    json!({"begin_ns": 7_000_000, "cycle_ns": 1_000_000, "whole": true, "classes": [bulk, control, null, {}]})
}

/// Returns the report of a scenario: one run, and two directions of a link, of which one has gates.
fn scenario() -> Value {
    let mut report = sample(&["this run"], 100);
    let ways = [policy("a -> b", 0, 100), policy("b -> a", 1, 100)];
    report["ways"] = ways.into_iter().collect();
    report["ways"][0]["classes"][0]["gates"] = gates();
    for key in ["verdict", "interval", "fidelity"] {
        report[key] = Value::Null;
    }
    for measure in report["policies"][0]["measures"].as_array_mut().unwrap() {
        measure["runs"] = json!([measure["median"]]);
    }
    report
}

/// With `TXWEIR_PAGES=DIR` the pages are kept in a folder, to be looked at.
#[test]
fn every_chart_draws_at_every_width_in_both_themes() {
    let Some(browser) = browser() else {
        println!("html: charts in a browser skipped, because chromium is not installed");
        return;
    };
    for dark in [false, true] {
        let mut cases = Vec::new();
        for (name, report, ..) in samples() {
            let page = html(&report.to_string());
            if let Some(kept) = std::env::var_os("TXWEIR_PAGES") {
                fs::write(Path::new(&kept).join(format!("{name}.html")), &page).unwrap();
            }
            for (width, theme) in [(360, "own"), (1280, "other")] {
                let interact = name == "three";
                cases.push(
                    json!({"name": name, "page": page, "width": width, "theme": theme, "interact": interact}),
                );
            }
        }
        let (seen, complaints) = looked_at(browser, if dark { "dark" } else { "light" }, dark, &cases);
        assert_eq!(complaints, "");
        assert_eq!(seen.len(), cases.len());
        for one in &seen {
            check(one, dark);
        }
    }
}

fn check(one: &Value, dark: bool) {
    let (_, _, charts, empty) = samples().into_iter().find(|s| s.0 == one["name"]).unwrap();
    // The charts of runs and of schedules are no canvases.
    let plots = charts - empty - one["pictures"].as_u64().unwrap() as u32;
    assert_eq!(one["errors"], "", "{one}");
    assert_eq!(one["planted"], "", "{one}");
    assert_eq!(one["scripts"], 3, "{one}");
    assert_eq!(one["charts"], format!("{charts}/{charts}"), "{one}");
    assert_eq!(one["nodata"], empty, "{one}");
    // Three buttons for each chart with data, and two for the page if it has policies.
    let (right, all) = one["files"].as_str().and_then(|f| f.split_once('/')).unwrap();
    assert_eq!(right, all, "{one}");
    let of_page = if ["empty", "no policies"].contains(&one["name"].as_str().unwrap()) { 0 } else { 2 };
    assert_eq!(all, (3 * (charts - empty) + of_page).to_string(), "{one}");
    assert_eq!(one["ink"], format!("{plots}/{plots}"), "{one}");
    assert_eq!((&one["overflow"], &one["wide"]), (&json!(0), &json!(0)), "{one}");
    let (light_page, dark_page) = ("rgb(245, 246, 248)", "rgb(15, 20, 26)");
    let own = if dark { dark_page } else { light_page };
    assert_eq!(one["first"], own, "the theme that the reader prefers: {one}");
    assert_eq!(
        one["background"] == one["first"],
        one["theme"] == "own",
        "the button changes the theme: {one}"
    );
    for (what, worked) in one["used"].as_object().unwrap() {
        assert_eq!(worked, true, "{what}: {one}");
    }
    assert_eq!(one["used"].as_object().unwrap().is_empty(), one["name"] != "three");
}
