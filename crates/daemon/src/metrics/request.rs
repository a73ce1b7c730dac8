//! The requests of HTTP/1.1 (RFC 9112) that the metrics' socket knows, and their responses: `GET
//! /metrics`, and nothing else. A connection ends with its response.

use super::page::MEDIA_TYPE;

/// Most bytes of a request, its header fields included.
pub const REQUEST_MAX: usize = 8 << 10;

/// The answer to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The page of metrics.
    Metrics,
    /// An error, by its status.
    Error(Status),
}

/// A status of HTTP with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(u16, &'static str);

/// The page exceeds its bound.
pub const TOO_MUCH: Status = Status(503, "Service Unavailable: the metrics exceed the bound of a page");
const BAD: Status = Status(400, "Bad Request");
const NOT_FOUND: Status = Status(404, "Not Found: expected /metrics");
const NOT_ALLOWED: Status = Status(405, "Method Not Allowed");
const TOO_LARGE: Status = Status(431, "Request Header Fields Too Large");

/// Returns the answer to the bytes that a client has sent; `None` if the request is not whole.
pub fn read(input: &[u8]) -> Option<Answer> {
    let end = input.windows(4).position(|at| at == b"\r\n\r\n");
    match end {
        None if input.len() > REQUEST_MAX => return Some(Answer::Error(TOO_LARGE)),
        None => return None,
        Some(end) if end > REQUEST_MAX => return Some(Answer::Error(TOO_LARGE)),
        Some(_) => {}
    }
    // RFC 9112, section 3: method, target and version with one blank between them.
    let line = input.split(|b| *b == b'\r').next().unwrap_or_default();
    let words: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
    let [method, target, version] = words[..] else { return Some(Answer::Error(BAD)) };
    let is_token = !method.is_empty() && method.iter().all(u8::is_ascii_alphabetic);
    if !is_token || !target.starts_with(b"/") || !version.starts_with(b"HTTP/1.") {
        return Some(Answer::Error(BAD));
    }
    let path = target.split(|b| *b == b'?').next().unwrap_or_default();
    Some(match (path, method) {
        (b"/metrics", b"GET") => Answer::Metrics,
        (b"/metrics", _) => Answer::Error(NOT_ALLOWED),
        _ => Answer::Error(NOT_FOUND),
    })
}

/// Returns the head of a response with a page of this length.
pub fn head(bytes: usize) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {bytes}\r\nConnection: close\r\n\r\n"
    )
}

/// Returns the response of an error.
pub fn error(Status(code, reason): Status) -> String {
    // RFC 9110, section 15.5.6: the methods that are allowed.
    let allow = if code == NOT_ALLOWED.0 { "Allow: GET\r\n" } else { "" };
    let body = format!("{code} {reason}\n");
    let short = reason.split(':').next().unwrap_or_default();
    format!(
        "HTTP/1.1 {code} {short}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         {allow}Connection: close\r\n\r\n{body}",
        body.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_get_metrics_is_answered() {
        let of = |line: &str| match read(format!("{line}\r\nHost: a\r\n\r\n").as_bytes()) {
            Some(Answer::Metrics) => 200,
            Some(Answer::Error(Status(code, _))) => code,
            None => 0,
        };
        let lines = [
            ("GET /metrics HTTP/1.1", 200),
            ("GET /metrics?x=1 HTTP/1.0", 200),
            ("HEAD /metrics HTTP/1.1", 405),
            ("POST /metrics HTTP/1.1", 405),
            ("GET / HTTP/1.1", 404),
            ("GET /metricsx HTTP/1.1", 404),
            ("POST /../metrics HTTP/1.1", 404),
            ("GET /metrics HTTP/2", 400),
            ("GET  /metrics HTTP/1.1", 400),
            ("GET http://a/metrics HTTP/1.1", 400),
            ("G\0T /metrics HTTP/1.1", 400),
            ("", 400),
        ];
        for (line, code) in lines {
            assert_eq!(of(line), code, "{line}");
        }
    }

    #[test]
    fn a_request_is_bounded_and_may_come_in_pieces() {
        let whole = b"GET /metrics HTTP/1.1\r\nA: b\r\n\r\n";
        for cut in 0..whole.len() {
            assert_eq!(read(&whole[..cut]), None, "{cut}");
        }
        let long = [b"GET /metrics HTTP/1.1\r\nA: ".as_slice(), &vec![b'x'; REQUEST_MAX]].concat();
        assert_eq!(read(&long), Some(Answer::Error(TOO_LARGE)));
        let ended = [&long, b"\r\n\r\n".as_slice()].concat();
        assert_eq!(read(&ended), Some(Answer::Error(TOO_LARGE)));
    }

    #[test]
    fn an_error_names_what_is_expected() {
        let text = error(NOT_ALLOWED);
        assert!(
            text.starts_with("HTTP/1.1 405 Method Not Allowed\r\n") && text.contains("\r\nAllow: GET\r\n")
        );
        assert!(error(NOT_FOUND).ends_with("\r\n\r\n404 Not Found: expected /metrics\n"));
    }
}
