//! `/metrics`: what is counted, as text for Prometheus. Reads counters and one row of counts from the store; changes
//! nothing.

use std::fmt::{Display, Write as _};
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse as _;
use tidegate_engine::{LaneReport, WAIT_CLASSES_MS};
use tidegate_protocol::api::LaneStatus;
use tidegate_storage::StoreStatus;

use crate::answer::Answered;
use crate::gate::{Gate, VERSION};

const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";
/// States in which a part still has to go out.
const WAITING_PARTS: [&str; 2] = ["pending", "sending"];

pub(crate) async fn metrics(State(gate): State<Gate>) -> Answered {
    let engine = gate.engine();
    let stored = engine.library().status(engine.tenant()).await?;
    let mut page = Page::default();
    page.family("tidegate_build_info", "gauge", "The release that runs.");
    page.line("tidegate_build_info", &[("version", VERSION)], 1);
    let up = gate.shared.now() - gate.shared.started_at;
    page.family("tidegate_uptime_seconds", "gauge", "How long the process runs.");
    page.line("tidegate_uptime_seconds", &[], seconds(u64::try_from(up).unwrap_or(0)));
    page.family("tidegate_ready", "gauge", "Whether it can work.");
    page.line("tidegate_ready", &[], u8::from(engine.health().ready));
    lanes(&mut page, &engine.lanes());
    store(&mut page, &stored);
    page.family("tidegate_ws_clients", "gauge", "Clients of the WebSocket protocol.");
    page.line("tidegate_ws_clients", &[], gate.shared.hub.count());
    if let Some(bytes) = resident_bytes() {
        page.family("process_resident_memory_bytes", "gauge", "Memory of the process.");
        page.line("process_resident_memory_bytes", &[], bytes);
    }
    Ok(([(CONTENT_TYPE, FORMAT)], page.0).into_response())
}

/// How the lanes stand, for whoever asks for the status.
pub(crate) fn lane_statuses(reports: &[LaneReport]) -> Vec<LaneStatus> {
    let size = |size: usize| u32::try_from(size).unwrap_or(u32::MAX);
    let status = |report: &LaneReport| LaneStatus {
        lane: report.lane,
        limit: size(report.limit),
        running: size(report.running),
        waiting: size(report.waiting),
        oldest_wait_ms: report.oldest_wait.map(millis),
        started: report.waits.count(),
        wait_p50_ms: report.waits.percentile_ms(50),
        wait_p95_ms: report.waits.percentile_ms(95),
        wait_p99_ms: report.waits.percentile_ms(99),
        warnings: report.warnings,
        spilled: report.spilled,
    };
    reports.iter().map(status).collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Seconds as they are written: whole milliseconds, so no fraction is ever rounded.
fn seconds(ms: u64) -> String {
    format!("{}.{:03}", ms / 1000, ms % 1000)
}

fn lanes(page: &mut Page, reports: &[LaneReport]) {
    let mut each = |name: &str, kind: &str, about: &str, value: &dyn Fn(&LaneReport) -> String| {
        page.family(name, kind, about);
        for report in reports {
            page.line(name, &[("lane", report.lane.as_str())], value(report));
        }
    };
    each("tidegate_lane_limit", "gauge", "Runs that may be under way at once.", &|lane| {
        lane.limit.to_string()
    });
    each("tidegate_lane_running", "gauge", "Places that are taken.", &|lane| lane.running.to_string());
    each("tidegate_lane_waiting", "gauge", "Runs that wait for a place.", &|lane| lane.waiting.to_string());
    each("tidegate_lane_oldest_wait_seconds", "gauge", "How long the first of them waits.", &|lane| {
        seconds(lane.oldest_wait.map_or(0, millis))
    });
    each("tidegate_lane_warnings_total", "counter", "Runs that waited for too long.", &|lane| {
        lane.warnings.to_string()
    });
    each(
        "tidegate_lane_spilled_total",
        "counter",
        "Conversations left to the store by a full queue.",
        &|lane| lane.spilled.to_string(),
    );
    each("tidegate_turns_total", "counter", "Runs that began.", &|lane| lane.waits.count().to_string());
    let name = "tidegate_lane_wait_seconds";
    page.family(name, "histogram", "How long runs waited for their place before they began.");
    for report in reports {
        waits(page, name, report);
    }
}

fn waits(page: &mut Page, name: &str, report: &LaneReport) {
    let lane = ("lane", report.lane.as_str());
    let mut passed = 0;
    for (runs, end) in report.waits.classes.iter().zip(WAIT_CLASSES_MS) {
        passed += runs;
        page.line(&format!("{name}_bucket"), &[lane, ("le", &seconds(end))], passed);
    }
    let count = report.waits.count();
    page.line(&format!("{name}_bucket"), &[lane, ("le", "+Inf")], count);
    page.line(&format!("{name}_sum"), &[lane], seconds(report.waits.sum_ms));
    page.line(&format!("{name}_count"), &[lane], count);
}

fn store(page: &mut Page, stored: &StoreStatus) {
    page.family("tidegate_sessions", "gauge", "Conversations.");
    page.line("tidegate_sessions", &[], stored.sessions);
    page.family("tidegate_runs", "gauge", "Runs in the store, by how they stand or ended.");
    for (state, count) in &stored.runs {
        page.line("tidegate_runs", &[("state", state)], count);
    }
    let depth = |list: &[(String, u64)], states: &[&str]| -> u64 {
        list.iter().filter(|(state, _)| states.contains(&state.as_str())).map(|(_, count)| count).sum()
    };
    page.family("tidegate_inbox_depth", "gauge", "Messages that were accepted and wait for their turn.");
    page.line("tidegate_inbox_depth", &[], depth(&stored.runs, &["queued"]));
    page.family("tidegate_outbox_depth", "gauge", "Parts that still have to go out.");
    page.line("tidegate_outbox_depth", &[], depth(&stored.outbox, &WAITING_PARTS));
    page.family("tidegate_outbox", "gauge", "Parts in the store, by state.");
    for (state, count) in &stored.outbox {
        page.line("tidegate_outbox", &[("state", state)], count);
    }
}

/// What the process holds, where the system tells.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// The text, line by line.
#[derive(Default)]
struct Page(String);

impl Page {
    fn family(&mut self, name: &str, kind: &str, about: &str) {
        let _ = writeln!(self.0, "# HELP {name} {about}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        self.0.push_str(name);
        for (at, (label, text)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{}\"", escaped(text));
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use tidegate_engine::Waits;
    use tidegate_protocol::Lane;

    use super::*;

    #[test]
    fn labels_are_escaped_and_values_follow_them() {
        let mut page = Page::default();
        page.line("a", &[], 1);
        page.line("b", &[("x", "1"), ("y", "a \"b\"\\\nc")], 2);
        assert_eq!(page.0, "a 1\nb{x=\"1\",y=\"a \\\"b\\\"\\\\\\nc\"} 2\n");
    }

    #[test]
    fn the_classes_of_a_histogram_add_up_to_its_count() {
        let mut waits = Waits { sum_ms: 90_500, longest_ms: 90_000, ..Waits::default() };
        waits.classes[0] = 7;
        waits.classes[7] = 1;
        waits.classes[14] = 1;
        let report = LaneReport {
            lane: Lane::Cron,
            limit: 5,
            running: 2,
            waiting: 1,
            oldest_wait: Some(Duration::from_millis(1_250)),
            waits,
            warnings: 1,
            spilled: 0,
        };
        let mut page = Page::default();
        lanes(&mut page, std::slice::from_ref(&report));
        for line in [
            "tidegate_lane_oldest_wait_seconds{lane=\"cron\"} 1.250",
            "tidegate_turns_total{lane=\"cron\"} 9",
            "tidegate_lane_wait_seconds_bucket{lane=\"cron\",le=\"0.001\"} 7",
            "tidegate_lane_wait_seconds_bucket{lane=\"cron\",le=\"0.250\"} 7",
            "tidegate_lane_wait_seconds_bucket{lane=\"cron\",le=\"0.500\"} 8",
            "tidegate_lane_wait_seconds_bucket{lane=\"cron\",le=\"60.000\"} 8",
            "tidegate_lane_wait_seconds_bucket{lane=\"cron\",le=\"+Inf\"} 9",
            "tidegate_lane_wait_seconds_sum{lane=\"cron\"} 90.500",
            "tidegate_lane_wait_seconds_count{lane=\"cron\"} 9",
        ] {
            assert!(page.0.lines().any(|written| written == line), "{line} is not in\n{}", page.0);
        }
        let status = &lane_statuses(&[report])[0];
        assert_eq!((status.started, status.wait_p50_ms, status.wait_p99_ms), (9, Some(1), Some(90_000)));
    }
}
