//! Logs of load balancers and of other servers, filters, stray stamps, and masked paths.

use std::fmt::Write as _;
use std::io::Cursor;

use duality_trace::Trace;
use duality_trace::readers::{Filter, Format, Made, Rules, make_of};

fn of(text: &str, rules: &Rules) -> Made {
    make_of(Cursor::new(text.to_owned()), "a.log", None, rules).unwrap()
}

fn warned<'t>(trace: &'t Trace, of: &str) -> Option<&'t String> {
    trace.head.warnings.iter().find(|warning| warning.contains(of))
}

/// Two requests of a client in each format, a second apart: the format is found, and so are both.
#[test]
fn each_format_is_found_by_its_first_line() {
    let traefik = r#"{"ClientAddr":"192.0.2.7:50000","DownstreamContentSize":19,"DownstreamStatus":200,"Duration":84137,"RequestMethod":"GET","RequestPath":"/a","RequestProtocol":"HTTP/1.1","StartUTC":"2026-11-28T17:00:0@Z"}"#;
    let alb = r#"https 2026-11-28T17:00:0@.186641Z app/lb/50 192.0.2.7:2817 10.0.0.1:80 0.086 0.048 0.037 200 200 0 57 "GET https://a.test:443/a HTTP/1.1" "curl/7.46.0" - -"#;
    let haproxy = r#"Nov 28 17:00:0@ h haproxy[14]: 192.0.2.7:33317 [28/Nov/2026:17:00:0@.655] in srv/1 10/0/30/69/109 200 57 - - ---- 1/1/1/1/0 0/0 "GET /a HTTP/1.1""#;
    let cloudfront = "2026-11-28\t17:00:0@\tLAX1\t57\t192.0.2.7\tGET\td1\t/a\t200\t0.001\tHTTP/2.0";
    let iis = "2026-11-28 17:00:0@ ::1 GET /a 192.0.2.7 Mozilla/5.0 200 46";
    for (format, source, begin, line) in [
        (Format::Json, "Traefik", "", traefik),
        (Format::Alb, "AWS", "", alb),
        (Format::Haproxy, "HAProxy", "", haproxy),
        (
            Format::W3c,
            "CloudFront",
            "#Version: 1.0\n#Fields: date time x-edge-location sc-bytes c-ip cs-method cs(Host) cs-uri-stem sc-status time-taken cs-protocol-version\n",
            cloudfront,
        ),
        (
            Format::W3c,
            "IIS",
            "#Software: IIS\r\n#Version: 1.0\r\n#Fields: date time s-ip cs-method cs-uri-stem c-ip cs(User-Agent) sc-status time-taken\r\n",
            iis,
        ),
    ] {
        let text = format!("{begin}{}\n{}\n", line.replace('@', "1"), line.replace('@', "2"));
        let made = of(&text, &Rules { paths: true, ..Rules::default() });
        assert_eq!((made.format, made.rejected.count), (format, 0), "{source}");
        let trace = made.trace;
        assert_eq!((trace.requests(), trace.head.connections), (2, 1), "{source}");
        assert_eq!(trace.head.classes[0].path.as_deref(), Some("/a"), "{source}");
        assert!(trace.head.source.contains(source), "{}", trace.head.source);
    }
}

fn line(second: u32, path: &str, status: u16, agent: &str) -> String {
    format!(
        "192.0.2.7 - - [28/Nov/2026:17:{:02}:{:02} +0000] \"GET {path} HTTP/1.1\" {status} 100 \"-\" \"{agent}\"\n",
        second / 60,
        second % 60
    )
}

#[test]
fn a_filter_takes_what_it_says_and_counts_the_rest() {
    let mut text = String::new();
    for second in 0..100 {
        text += &line(second, "/a", 200, "Mozilla");
        text += &line(second, "/b", 404, "Bot");
    }
    let since = duality_trace::filter::time("2026-11-28T17:00:50Z").unwrap();
    for (filter, count) in [
        (Filter { since: Some(since), ..Filter::default() }, 100),
        (Filter { paths: vec!["/a*".parse().unwrap()], ..Filter::default() }, 100),
        (
            Filter {
                statuses: Some("2xx".parse().unwrap()),
                since: Some(since),
                ..Filter::default()
            },
            50,
        ),
        (Filter { other_agents: vec!["bot".into()], until: Some(since), ..Filter::default() }, 50),
    ] {
        let trace = of(&text, &Rules { filter, ..Rules::default() }).trace;
        assert_eq!(trace.requests(), count);
        let told = warned(&trace, "the filter left out").unwrap();
        assert!(told.ends_with(&format!(": {}", 200 - count)), "{told}");
    }
}

#[test]
fn a_line_of_1970_is_named_and_left_out() {
    let mut text = String::new();
    for second in 0..744 {
        text += &line(second, "/a", 200, "Mozilla");
        if second == 400 {
            let stray = line(0, "/a", 200, "Mozilla").replace("28/Nov/2026", "01/Jan/1970");
            text += &stray;
        }
    }
    let trace = of(&text, &Rules::default()).trace;
    assert_eq!(trace.requests(), 744);
    assert!(trace.seconds() < 900.0, "{}", trace.seconds());
    let told = warned(&trace, "far from all others").unwrap();
    assert!(told.contains("1970-01-01") && told.ends_with(": 1"), "{told}");
}

#[test]
fn secrets_in_paths_are_masked_unless_they_are_asked_for() {
    let text = line(0, "/reset?token=abcdef&page=2", 200, "Mozilla");
    for (keeps_secrets, path) in
        [(false, "/reset?token=*&page=2"), (true, "/reset?token=abcdef&page=2")]
    {
        let trace = of(&text, &Rules { paths: true, keeps_secrets, ..Rules::default() }).trace;
        assert_eq!(trace.head.classes[0].path.as_deref(), Some(path));
    }
}

#[test]
fn a_format_of_a_users_own_needs_no_other() {
    let pattern = "$remote_addr|$msec|$request|$status|$bytes_sent|$request_time";
    let rules = Rules { pattern: Some(pattern.parse().unwrap()), ..Rules::default() };
    let mut text = String::new();
    for second in 0..3 {
        let _ = writeln!(text, "192.0.2.7|179588520{second}.5|GET /a HTTP/1.1|200|100|0.25");
    }
    text += "192.0.2.7|x|GET /a HTTP/1.1|200|100|0.25\n";
    let made = of(&text, &rules);
    assert_eq!((made.format, made.trace.requests(), made.rejected.count), (Format::Pattern, 3, 1));
}
