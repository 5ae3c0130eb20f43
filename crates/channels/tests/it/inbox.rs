//! Receiving from an inbox that people, scripts and editors write to.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use tidegate_protocol::{ConnectorError, Inbound, InboundMessage, Peer, PeerKind};

use crate::scene::{Answer, Folder, NOW, Receiving, Sink};

fn mode(path: &std::path::Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn a_line_becomes_a_message_with_everything_it_says() {
    let (folder, sink) = (Folder::new(), Sink::new());
    folder.write(
        "{\"input\":\"hi\",\"sessionKey\":\"anna\",\"requestId\":\"r1\",\"accountId\":\"x\"}\nplain\n",
    );
    let receiving = Receiving::start(&folder, &sink);
    sink.kept_at_least(2).await;
    let inbound = |id: &str, peer: &str, text: &str| Inbound {
        tenant_id: "local".parse().unwrap(),
        workspace_id: "default".parse().unwrap(),
        channel: "local".parse().unwrap(),
        account_id: "work".to_owned(),
        peer: Peer { kind: PeerKind::Dm, id: peer.to_owned() },
        sender_id: None,
        thread_id: None,
        message: InboundMessage { id: id.to_owned(), text: text.to_owned(), attachments: Vec::new() },
        timestamp: NOW,
    };
    assert_eq!(sink.kept(), [inbound("r1", "anna", "hi"), inbound("@1-68", "main", "plain")]);
    assert_eq!(sink.offers().len(), 1, "both lines in one commit");
    receiving.stop().await;
}

#[tokio::test]
async fn a_missing_inbox_is_made_for_its_owner_alone_and_made_again_when_it_vanishes() {
    let (folder, sink) = (Folder::new(), Sink::new());
    let receiving = Receiving::start(&folder, &sink);
    let appear = async || {
        while !folder.inbox().exists() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(20), appear()).await.unwrap();
    assert_eq!((mode(&folder.inbox()), mode(folder.inbox().parent().unwrap())), (0o600, 0o700));
    folder.append(b"one\n");
    sink.kept_at_least(1).await;
    fs::remove_file(folder.inbox()).unwrap();
    tokio::time::timeout(std::time::Duration::from_secs(20), appear()).await.unwrap();
    folder.append(b"two\n");
    sink.kept_at_least(2).await;
    assert_eq!(sink.texts(), ["one", "two"]);
    receiving.stop().await;
}

#[tokio::test]
async fn what_was_not_accepted_is_offered_again_until_it_is() {
    let (folder, sink) = (Folder::new(), Sink::new());
    folder.write("one\ntwo\n");
    sink.answer(&[Answer::Retry, Answer::Retry]);
    let receiving = Receiving::start(&folder, &sink);
    sink.kept_at_least(2).await;
    let same = vec!["@1-0".to_owned(), "@1-4".to_owned()];
    assert_eq!(sink.offers(), [same.clone(), same.clone(), same]);
    receiving.stop().await;
}

#[tokio::test]
async fn what_was_kept_although_its_answer_was_lost_is_not_offered_again() {
    let (folder, sink) = (Folder::new(), Sink::new());
    folder.write("one\n");
    sink.answer(&[Answer::KeepAndRetry]);
    let receiving = Receiving::start(&folder, &sink);
    sink.offered_at_least(1).await;
    // Rewritten during the pause: the new line stands where the old one stood and must not be taken for it.
    folder.write("six\n");
    sink.kept_at_least(2).await;
    assert_eq!(sink.ids(), ["@1-0", "@2-0"]);
    assert_eq!(sink.offers().len(), 2);
    receiving.stop().await;
}

#[tokio::test]
async fn a_closed_sink_ends_it_in_peace() {
    let (folder, sink) = (Folder::new(), Sink::new());
    folder.write("one\n");
    sink.answer(&[Answer::Close]);
    assert!(Receiving::start(&folder, &sink).end().await.is_ok());
    assert_eq!(sink.kept(), []);
}

#[tokio::test]
async fn a_restart_goes_on_where_the_last_one_ended() {
    let (folder, sink) = (Folder::new(), Sink::new());
    folder.write("one\ntw");
    for (round, appended) in [&b""[..], b"o\n", b"three\n"].into_iter().enumerate() {
        folder.append(appended);
        let receiving = Receiving::start(&folder, &sink);
        sink.kept_at_least(round + 1).await;
        receiving.stop().await;
    }
    assert_eq!(sink.texts(), ["one", "two", "three"]);
    assert_eq!(sink.offers().len(), 3, "nothing was offered twice");
}

#[tokio::test]
async fn an_inbox_that_was_rewritten_meanwhile_is_read_from_its_start() {
    let (folder, sink) = (Folder::new(), Sink::new());
    folder.write("one\n");
    let receiving = Receiving::start(&folder, &sink);
    sink.kept_at_least(1).await;
    folder.write("uno\n");
    sink.kept_at_least(2).await;
    receiving.stop().await;
    folder.write("eins\nzwei\n");
    let receiving = Receiving::start(&folder, &sink);
    sink.kept_at_least(4).await;
    receiving.stop().await;
    assert_eq!(sink.texts(), ["one", "uno", "eins", "zwei"]);
}

#[tokio::test]
async fn the_same_request_twice_is_one_message() {
    let (folder, sink) = (Folder::new(), Sink::new());
    let line = "{\"text\":\"hi\",\"requestId\":\"r1\"}\n";
    folder.write(&format!("{line}{line}after\n"));
    let receiving = Receiving::start(&folder, &sink);
    sink.kept_at_least(2).await;
    assert_eq!(sink.texts(), ["hi", "after"]);
    receiving.stop().await;
}

#[tokio::test]
async fn lines_written_while_it_reads_come_once_and_in_order_whatever_the_pieces() {
    let (folder, sink) = (Folder::new(), Sink::new());
    folder.write("");
    let receiving = Receiving::start(&folder, &sink);
    let lines: Vec<_> = (0..500).map(|number| format!("line {number} {}", "é".repeat(number % 40))).collect();
    let content = lines.join(
        "
",
    ) + "
";
    let mut rest = content.as_bytes();
    let mut size = 1;
    while !rest.is_empty() {
        // Pieces of 1 to 997 bytes that end anywhere, in the middle of a character too.
        size = (size * 31 + 7) % 997 + 1;
        let (piece, left) = rest.split_at(size.min(rest.len()));
        folder.append(piece);
        rest = left;
        tokio::task::yield_now().await;
    }
    sink.kept_at_least(500).await;
    assert_eq!(sink.texts(), lines);
    assert!(sink.offers().iter().all(|offer| offer.len() <= 100));
    receiving.stop().await;
}

#[tokio::test]
async fn an_inbox_that_cannot_be_one_is_refused_with_its_path() {
    let (folder, sink) = (Folder::new(), Sink::new());
    fs::create_dir_all(folder.inbox()).unwrap();
    let error = Receiving::start(&folder, &sink).end().await.unwrap_err();
    let ConnectorError::Refused(reason) = error else { panic!("{error}") };
    assert!(reason.contains("inbox.jsonl") && reason.contains("channels.local"), "{reason}");
}

#[tokio::test]
async fn a_position_of_a_newer_release_is_refused_and_nothing_is_read_twice() {
    let (folder, sink) = (Folder::new(), Sink::new());
    folder.write("one\n");
    sink.set_cursor("{\"version\":9}");
    let error = Receiving::start(&folder, &sink).end().await.unwrap_err();
    assert!(matches!(error, ConnectorError::Refused(_)), "{error}");
    assert_eq!(sink.offers().len(), 0);
}
