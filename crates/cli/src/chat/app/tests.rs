//! What the chat does with keys and events.

mod elsewhere;
mod turns;

use serde_json::json;
use tidegate_protocol::api::{ApprovalDecision, AskAnswer};
use tidegate_protocol::{ErrorCode, RunEventBody, Usage};

use super::super::line::Line;
use super::*;

const RUNS: [&str; 3] = [
    "01890a5d-ac96-774b-bcce-b302099a8051",
    "01890a5d-ac96-774b-bcce-b302099a8052",
    "01890a5d-ac96-774b-bcce-b302099a8053",
];

/// A terminal that is driven by hand; time passes only when it is told to.
struct Driven {
    state: State,
    now: i64,
    scrollback: Vec<String>,
}

impl Driven {
    fn new() -> Self {
        let facts = Facts {
            language: Language::English,
            program: "tidegate".to_owned(),
            version: "tidegate".to_owned(),
            session: "main".to_owned(),
            model: "offline".to_owned(),
            triggers: vec!["/fresh".to_owned()],
            verbose: Verbose::On,
            past: None,
        };
        let completions = completions(Language::English, Vec::new());
        let models: Models = Box::new(|word| (word == "b").then(|| "maker/b".to_owned()));
        let mut state = State::new(facts, models, Vec::new(), completions, 60, 0);
        state.take_finished();
        Self { state, now: 10_000, scrollback: Vec::new() }
    }

    fn event(&mut self, event: Event) -> Vec<Effect> {
        let effects = self.state.update(event, self.now);
        self.scrollback.extend(self.state.take_finished().iter().map(Line::text));
        effects
    }

    fn press(&mut self, key: Key) -> Vec<Effect> {
        self.event(Event::Key(key))
    }

    /// A letter that stays alone.
    fn answer(&mut self, letter: char) -> Vec<Effect> {
        assert_eq!(self.press(Key::Char(letter)), []);
        self.now += 300;
        self.event(Event::Tick)
    }

    fn enter(&mut self, text: &str) -> Vec<Effect> {
        self.event(Event::Key(Key::Paste(text.to_owned())));
        let mut effects = self.press(Key::Enter);
        effects.retain(|effect| !matches!(effect, Effect::Remember(_)));
        effects
    }

    /// A message that is accepted as the run of its number.
    fn ask(&mut self, text: &str, turn: TurnId) {
        self.enter(text);
        let run = run(turn);
        self.told(turn, AskEvent::Accepted { run_id: run, created_at: 0, replayed: false });
    }

    fn told(&mut self, turn: TurnId, event: AskEvent) -> Vec<Effect> {
        self.event(Event::Told(turn, event))
    }

    fn delta(&mut self, turn: TurnId, text: &str) {
        self.told(turn, AskEvent::Delta { text: text.to_owned() });
    }

    fn notice(&mut self, turn: TurnId, notice: RunEventBody) -> Vec<Effect> {
        self.told(turn, AskEvent::Notice { notice })
    }

    fn answered(&mut self, turn: TurnId, text: &str) -> Vec<Effect> {
        self.answered_by(turn, "offline", text)
    }

    fn answered_by(&mut self, turn: TurnId, who: &str, text: &str) -> Vec<Effect> {
        let answer = json!({
            "runId": run(turn), "createdAt": 0, "sessionName": "main", "text": text,
            "origin": {"provider": who, "model": "echo", "api": who, "route": "echo", "stage": "s"},
            "usage": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "cost": 0},
        });
        let answer: AskAnswer = serde_json::from_value(answer).unwrap();
        self.told(turn, AskEvent::Answer(answer))
    }

    fn region(&self) -> Vec<String> {
        self.state.view().rows.iter().map(Line::text).collect()
    }

    fn region_has(&self, text: &str) -> bool {
        self.region().iter().any(|row| row.contains(text))
    }
}

fn run(turn: TurnId) -> RunId {
    RUNS[usize::try_from(turn).unwrap() - 1].parse().unwrap()
}

fn started(call: &str) -> RunEventBody {
    let (call_id, tool) = (call.to_owned(), "exec".to_owned());
    RunEventBody::ToolStarted { call_id, tool, args: json!({"command": "ls"}) }
}

fn ended(call: &str, text: &str) -> RunEventBody {
    let (call_id, tool, text) = (call.to_owned(), "exec".to_owned(), text.to_owned());
    RunEventBody::ToolEnded { call_id, tool, ok: true, text, duration_ms: 100, shadow: false }
}

fn asked(number: u8) -> RunEventBody {
    let approval = json!({
        "id": format!("01890a5d-ac96-774b-bcce-b302099a80{number:02}"), "agent": "main", "session": "main",
        "tool": "exec", "state": "pending", "requester": "model", "reason": "not on the list", "args": {},
        "commands": [format!("rm file{number}")], "shell": false, "env": [], "subjects": [], "rule": "rm …",
        "createdAt": 0, "expiresAt": 300_000,
    });
    RunEventBody::ApprovalAsked {
        call_id: "c".to_owned(),
        approval: serde_json::from_value(approval).unwrap(),
    }
}

#[test]
fn a_turn_is_said_answered_and_over() {
    let mut driven = Driven::new();
    let effects = driven.enter("hello");
    assert_eq!(effects, [Effect::Ask { turn: 1, text: "hello".to_owned(), join: Join::Queue }]);
    assert!(driven.region_has("Working"));
    driven.delta(1, "Good **morn");
    assert!(driven.region_has("Good **morn"), "{:?}", driven.region());
    driven.delta(1, "ing**.\n\nSecond");
    driven.answered(1, "Good **morning**.\n\nSecond");
    assert_eq!(driven.scrollback, ["", "› hello", "", "Good morning.", "", "Second"]);
    assert_eq!(driven.region(), ["", "› ", "  main · offline/echo"]);
    assert!(!driven.state.is_moving());
}

#[test]
fn an_answer_that_did_not_stream_is_shown_at_its_end() {
    let mut driven = Driven::new();
    driven.ask("/status", 1);
    driven.answered(1, "all is well");
    assert_eq!(driven.scrollback.last().unwrap(), "all is well");
}

#[test]
fn the_model_that_is_shown_is_the_one_that_answers() {
    let mut driven = Driven::new();
    driven.ask("/model b", 1);
    let chose = Choice { model: Some("maker/b".to_owned()), thinking: false, verbose: None };
    assert_eq!(driven.answered_by(1, "command", "b it is"), [Effect::Chose(chose)]);
    assert!(driven.region_has("main · maker/b"), "{:?}", driven.region());
    driven.ask("/model nobody", 2);
    assert_eq!(driven.answered_by(2, "command", "there is no such model"), []);
    assert!(driven.region_has("main · maker/b"), "{:?}", driven.region());
    driven.ask("hello", 3);
    driven.answered_by(3, "other", "hello");
    assert!(driven.region_has("main · other/echo"), "{:?}", driven.region());
}

#[test]
fn tools_stand_between_the_texts_around_them() {
    let mut driven = Driven::new();
    driven.ask("look", 1);
    driven.delta(1, "I look.");
    driven.notice(1, started("c1"));
    assert!(driven.region_has("exec  ls"), "{:?}", driven.region());
    driven.notice(1, RunEventBody::ToolUpdate { call_id: "c1".to_owned(), text: "half\n".to_owned() });
    assert!(driven.region_has("half"));
    driven.notice(1, ended("c1", "a file"));
    driven.delta(1, "Done.");
    driven.answered(1, "Done.");
    assert_eq!(
        driven.scrollback,
        ["", "› look", "", "I look.", "", "✓ exec  ls  (0.1 s)", "  a file", "", "Done."]
    );
}

#[test]
fn a_key_answers_the_question_and_the_next_one_is_put() {
    let mut driven = Driven::new();
    driven.ask("clean", 1);
    assert_eq!(driven.notice(1, asked(1)), [Effect::Bell]);
    driven.notice(1, asked(2));
    assert!(driven.scrollback.iter().any(|row| row == "    rm file1"));
    assert!(!driven.scrollback.iter().any(|row| row == "    rm file2"), "one question at a time");
    driven.now += 2_000;
    let effects = driven.answer('y');
    let [Effect::Answer(_, answer), Effect::Bell] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!(answer.decision, ApprovalDecision::AllowOnce);
    assert!(driven.scrollback.iter().any(|row| row == "✓ allowed  rm file1"), "{:?}", driven.scrollback);
    assert!(driven.scrollback.iter().any(|row| row == "    rm file2"));
}

#[test]
fn whoever_is_typing_does_not_answer_by_it() {
    let mut driven = Driven::new();
    driven.ask("clean", 1);
    driven.notice(1, asked(1));
    for key in "yes any".chars() {
        driven.now += 200;
        assert_eq!(driven.press(Key::Char(key)), [], "{key}");
    }
    assert!(driven.region_has("› yes any"), "it was typed: {:?}", driven.region());
    // Reading for a while does not make the next letter an answer.
    driven.now += 60_000;
    assert_eq!(driven.press(Key::Char('n')), []);
    assert!(driven.region_has("› yes anyn"), "{:?}", driven.region());
    assert!(driven.region_has("Letters go to the line below"), "{:?}", driven.region());
    driven.press(Key::Ctrl('c'));
    assert!(!driven.region_has("Letters go to the line below"), "{:?}", driven.region());
    assert!(matches!(driven.answer('n').first(), Some(Effect::Answer(..))));
    driven.press(Key::Ctrl('y'));
    assert!(driven.region_has("› yes anyn"), "what was typed can be put back");
}

/// What a person types at an open question, how long after one another, and the decisions that come of it with what is
/// in the line.
#[test]
fn only_a_letter_that_stays_alone_answers_and_everything_else_is_typed() {
    let yes = [ApprovalDecision::AllowOnce].as_slice();
    for (keys, pace, decisions, line) in [
        ("Hey, stop", 150, [].as_slice(), "› Hey, stop"),
        ("Hey, stop", 5_000, &[], "› Hey, stop"),
        ("yes please", 150, &[], "› yes please"),
        ("no", 0, &[], "› no"),
        ("any way", 200, &[], "› any way"),
        ("y", 0, yes, ""),
        ("zy", 1_000, &[], "› zy"),
        ("y\u{8}", 100, &[], ""),
        ("y\r", 100, yes, ""),
        ("\u{8}y", 100, yes, ""),
    ] {
        let mut driven = Driven::new();
        driven.ask("clean", 1);
        driven.notice(1, asked(1));
        driven.now += 2_000;
        let mut effects = Vec::new();
        for c in keys.chars() {
            let key = match c {
                '\r' => Key::Enter,
                '\u{8}' => Key::Backspace,
                c => Key::Char(c),
            };
            effects.extend(driven.press(key));
            driven.now += pace;
        }
        driven.now += 5_000;
        effects.extend(driven.event(Event::Tick));
        let made = effects.iter().filter_map(|effect| match effect {
            Effect::Answer(_, answer) => Some(answer.decision),
            _ => None,
        });
        assert_eq!(made.collect::<Vec<_>>(), decisions, "{keys:?} {pace}");
        assert!(line.is_empty() || driven.region_has(line), "{keys:?}: {:?}", driven.region());
    }
}

#[test]
fn what_is_pasted_at_a_question_is_in_the_line() {
    let mut driven = Driven::new();
    driven.ask("clean", 1);
    driven.notice(1, asked(1));
    driven.now += 2_000;
    assert_eq!(driven.press(Key::Paste("y".to_owned())), []);
    driven.now += 2_000;
    assert_eq!(driven.event(Event::Tick), []);
    assert!(driven.region_has("› y"), "{:?}", driven.region());
    assert!(driven.region_has("Letters go to the line below"), "{:?}", driven.region());
}

#[test]
fn a_misspelled_command_is_told_and_not_sent() {
    for (text, said) in [
        ("/titel x", "There is no command /titel. Did you mean /title?"),
        ("/zzzzzz", "There is no command /zzzzzz."),
        ("/context x", "/context takes no words."),
        ("/quit now", "/quit takes no words."),
        ("@nope hi", "There is no model nope."),
    ] {
        let mut driven = Driven::new();
        assert_eq!(driven.enter(text), [], "{text}");
        let told = driven.scrollback.join(" ");
        assert!(told.contains(said) && told.contains("begin with a blank"), "{text}: {told}");
    }
    for text in ["/title x", "@b hi", " /titel x", "//titel x", "/etc/hosts?", "/fresh start", "hello"] {
        let effects = Driven::new().enter(text);
        assert!(matches!(effects.as_slice(), [Effect::Ask { .. }]), "{text}: {effects:?}");
    }
}

#[test]
fn a_denial_can_say_why() {
    let mut driven = Driven::new();
    driven.ask("clean", 1);
    driven.notice(1, asked(1));
    driven.now += 2_000;
    driven.answer('t');
    let effects = driven.enter("keep that file");
    let [Effect::Answer(_, answer)] = effects.as_slice() else { panic!("{effects:?}") };
    assert_eq!((answer.decision, answer.reason.as_deref()), (ApprovalDecision::Deny, Some("keep that file")));
    assert!(driven.region_has("› "), "{:?}", driven.region());
}

#[test]
fn an_answer_that_did_not_arrive_can_be_given_again() {
    let mut driven = Driven::new();
    driven.ask("clean", 1);
    driven.notice(1, asked(1));
    driven.now += 2_000;
    let effects = driven.answer('y');
    let [Effect::Answer(approval, _)] = effects.as_slice() else { panic!("{effects:?}") };
    let lost = || Err(ErrorBody::new(ErrorCode::Closing, "the gateway has gone"));
    assert_eq!(driven.event(Event::Decided(*approval, lost())), [Effect::Bell]);
    assert!(driven.scrollback.iter().any(|row| row.contains("the gateway has gone")));
    assert_eq!(driven.scrollback.iter().filter(|row| *row == "    rm file1").count(), 2, "it is put again");
    driven.now += 2_000;
    let again = driven.answer('n');
    assert!(matches!(again.as_slice(), [Effect::Answer(id, _)] if id == approval), "{again:?}");
    // What was settled meanwhile is not asked again.
    let notice = RunEventBody::ApprovalSettled { call_id: "c".to_owned(), approval_id: *approval };
    driven.notice(1, notice);
    assert_eq!(driven.event(Event::Decided(*approval, lost())), []);
    assert!(driven.region_has("Working"), "{:?}", driven.region());
}

#[test]
fn half_a_reason_is_never_sent_as_a_message() {
    let settled = RunEventBody::ApprovalSettled {
        call_id: "c".to_owned(),
        approval_id: "01890a5d-ac96-774b-bcce-b302099a8001".parse().unwrap(),
    };
    for gone in [
        AskEvent::Restarted,
        AskEvent::Error { error: ErrorBody::new(ErrorCode::DeadlineExceeded, "too slow") },
        AskEvent::Notice { notice: settled },
    ] {
        let mut driven = Driven::new();
        driven.ask("clean", 1);
        driven.notice(1, asked(1));
        driven.now += 2_000;
        driven.answer('t');
        "not th".chars().for_each(|c| drop(driven.press(Key::Char(c))));
        assert!(driven.region_has("› not th"));
        driven.told(1, gone);
        assert!(!driven.region_has("› not th"), "{:?}", driven.region());
        assert_eq!(driven.press(Key::Enter), []);
        driven.press(Key::Ctrl('y'));
        assert!(driven.region_has("› not th"), "it is not lost: {:?}", driven.region());
    }
}

#[test]
fn a_question_that_somebody_else_answered_is_gone() {
    let mut driven = Driven::new();
    driven.ask("clean", 1);
    driven.notice(1, asked(1));
    let approval_id = "01890a5d-ac96-774b-bcce-b302099a8001".parse().unwrap();
    driven.notice(1, RunEventBody::ApprovalSettled { call_id: "c".to_owned(), approval_id });
    assert_eq!(driven.scrollback.last().unwrap(), "· answered elsewhere  rm file1");
    assert!(driven.region_has("Working"));
}

#[test]
fn a_question_that_nobody_answered_says_why() {
    let settled = || RunEventBody::ApprovalSettled {
        call_id: "c".to_owned(),
        approval_id: "01890a5d-ac96-774b-bcce-b302099a8001".parse().unwrap(),
    };
    for (stopped, now, said) in [
        (true, 20_000, "· not answered: stopped  rm file1"),
        (false, 300_000, "· not answered in time  rm file1"),
    ] {
        let mut driven = Driven::new();
        driven.ask("clean", 1);
        driven.notice(1, asked(1));
        driven.now = now;
        if stopped {
            driven.press(Key::Esc);
        }
        driven.notice(1, settled());
        assert_eq!(driven.scrollback.last().unwrap(), said);
    }
}

#[test]
fn the_interrupt_key_is_answered_at_a_question_too() {
    let mut driven = Driven::new();
    driven.ask("clean", 1);
    driven.notice(1, asked(1));
    driven.now += 2_000;
    driven.press(Key::Ctrl('c'));
    assert!(driven.region_has("Press Ctrl+C again"), "{:?}", driven.region());
}

#[test]
fn what_nobody_typed_here_does_not_look_as_if() {
    let mut driven = Driven::new();
    driven.ask("build", 1);
    let text = "The task is done.\n\n[outside]\nplain".to_owned();
    driven.notice(1, RunEventBody::Steered { run_id: run(3), text });
    assert_eq!(driven.scrollback, ["", "› build", "", "· also read: The task is done."]);
}

#[test]
fn an_answer_without_words_says_so() {
    let mut driven = Driven::new();
    driven.ask("go", 1);
    driven.answered(1, "");
    assert_eq!(driven.scrollback.last().unwrap(), "· (no reply)");
}

#[test]
fn a_new_beginning_has_an_empty_window() {
    let mut driven = Driven::new();
    driven.ask("go", 1);
    driven.notice(1, RunEventBody::Usage { usage: Usage::default(), context_tokens: 5_000, window: 128_000 });
    driven.answered(1, "done");
    assert!(driven.region_has("5.0k / 128k"), "{:?}", driven.region());
    driven.ask("/new", 2);
    driven.answered_by(2, "command", "begun");
    assert!(!driven.region_has("128k"), "{:?}", driven.region());
}

#[test]
fn commands_of_the_terminal_are_not_sent() {
    let mut driven = Driven::new();
    assert_eq!(driven.enter("/quit"), [Effect::Leave]);
    assert_eq!(driven.enter("/export notes.md"), [Effect::Export(Some("notes.md".to_owned()))]);
    assert_eq!(driven.enter("/stop"), [Effect::StopHelpers(Vec::new())]);
    assert_eq!(driven.enter("/help"), []);
    for command in ["/new", "/model", "/think", "/export", "/quit", "Alt+Enter"] {
        assert!(driven.scrollback.iter().any(|row| row.contains(command)), "{command}");
    }
    assert!(matches!(driven.enter("/new").as_slice(), [Effect::Ask { .. }]), "the engine knows this one");
}

#[test]
fn a_list_that_is_cut_says_so() {
    let mut driven = Driven::new();
    driven.press(Key::Char('/'));
    assert!(driven.region_has("… 5 more"), "{:?}", driven.region());
    driven.press(Key::Char('q'));
    assert!(!driven.region_has("more"), "{:?}", driven.region());
}

#[test]
fn leaving_takes_the_interrupt_key_twice() {
    let mut driven = Driven::new();
    assert_eq!(driven.press(Key::Ctrl('c')), []);
    assert!(driven.region_has("Press Ctrl+C again"));
    assert_eq!(driven.press(Key::Ctrl('c')), [Effect::Leave]);
}

#[test]
fn what_is_entered_is_remembered() {
    let mut driven = Driven::new();
    driven.press(Key::Char('a'));
    assert!(driven.press(Key::Enter).contains(&Effect::Remember("a".to_owned())));
}

#[test]
fn no_row_of_the_region_is_wider_than_the_terminal() {
    let mut driven = Driven::new();
    driven.event(Event::Resized(30));
    driven.ask(&"很长的问题 ".repeat(20), 1);
    driven.notice(1, started("c1"));
    driven.ask("another one that waits and is long", 2);
    driven.notice(1, asked(1));
    driven.event(Event::Key(Key::Char('/')));
    for row in driven.state.view().rows {
        assert!(row.cells() <= 30, "{row:?}");
    }
}
