//! The report as a table for people, beside what others were measured to need with the same drivers on such a machine.

use serde_json::Value;

/// A figure: its name, where the report has it, and what ZeroClaw 0.8.7 and OpenClaw 2026.9.6 were measured at.
const FIGURES: [(&str, &str, &str, &str); 15] = [
    ("start to ready, ms", "/start_to_ready_ms/p50", "53", "15,700"),
    ("idle memory, MB", "/idle_rss_mb", "38", "1,130"),
    (
        "memory over idle after 10,000 turns, MB",
        "/memory/after_10000_over_idle_mb",
        "91 (526 turns)",
        "900 (250)",
    ),
    ("memory after all turns over that", "/memory/after_all_over_after_10000", "-", "-"),
    ("a turn over the bare model, 1 client, ms", "/one_client/turn_p50_over_the_model_ms", "12", "370"),
    ("first token over the model's, ms", "/one_client/first_token_over_the_model_ms", "21", "230"),
    ("one append with fdatasync, ms", "/one_client/fdatasync_ms", "", ""),
    ("turns a second, 32 clients", "/http/32/turns_a_second", "109", "2.9"),
    ("gateway CPU a turn, 32 clients, ms", "/http/32/gateway_cpu_ms_a_turn", "13", "370"),
    ("an idle WebSocket client, KB", "/sockets/idle_kb_each", "-", "-"),
    ("the same after traffic, KB", "/sockets/after_traffic_kb_each", "-", "-"),
    ("5,000 clients back after a storm, s", "/storm/all_back_after_s", "-", "-"),
    ("a turn's p99 beside the storm, ms", "/storm/turn_p99_ms_beside", "-", "-"),
    ("p99 beside a slow reader over alone", "/slow_reader/ratio", "-", "-"),
    ("CPU of other processes", "/cpu_of_other_processes", "", ""),
];

pub(crate) fn of(report: &Value) -> String {
    let mut table = row(["figure", "measured", "goal", "met", "ZeroClaw 0.8.7", "OpenClaw 2026.9.6"]);
    for (name, place, zero, open) in FIGURES {
        let Some(value) = report.pointer(place) else { continue };
        let text =
            |key: &str| value.get(key).map(|part| part.to_string().replace('"', "")).unwrap_or_default();
        let measured = if value.is_object() { text("value") } else { value.to_string() };
        let met = value.get("met").and_then(Value::as_bool).map_or("", |met| if met { "yes" } else { "NO" });
        table.push_str(&row([name, &measured, &text("goal"), met, zero, open]));
    }
    for way in ["http", "ws"] {
        for (clients, figures) in report[way].as_object().into_iter().flatten() {
            let [p50, p99] = ["p50_ms", "p99_ms"].map(|key| figures[key].to_string());
            let rate = figures.pointer("/turns_a_second/value").unwrap_or(&figures["turns_a_second"]);
            let name = format!("{way}, {clients} clients: p50, p99 in ms, turns a second");
            table.push_str(&row([&name, &format!("{p50}, {p99}, {rate}"), "", "", "", ""]));
        }
    }
    table
}

fn row(cells: [&str; 6]) -> String {
    let [name, measured, goal, met, zero, open] = cells;
    format!("{name:<52} {measured:>22} {goal:>16} {met:>4} {zero:>15} {open:>18}\n")
}
