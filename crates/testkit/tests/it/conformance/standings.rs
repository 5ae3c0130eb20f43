//! Standings of credentials: the latest one counts, whoever writes it down.

use tidegate_storage::StandingRow;
use tidegate_testkit::requests::Requests;
use tidegate_testkit::stores::ScratchStore;

on_both_backends! {
    a_standing_is_kept_and_read_back,
    the_later_standing_counts_whatever_the_order_of_writing,
    standings_are_cleared_by_credential_and_by_provider,
    standings_stay_in_their_tenant,
}

async fn read(store: &ScratchStore, make: &Requests) -> Vec<StandingRow> {
    store.standings(make.tenant()).await.unwrap()
}

async fn note(store: &ScratchStore, make: &Requests, standing: &StandingRow) {
    store.note_standing(make.tenant(), standing.clone()).await.unwrap();
}

async fn a_standing_is_kept_and_read_back(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let whole = StandingRow {
        disabled_until: Some(make.now()),
        billing_failures: 3,
        ..make.standing("openai", "two\0")
    };
    let of_model = StandingRow { model: "gpt-5".to_owned(), ..make.standing("openai", "one") };
    let fresh = StandingRow {
        provider: "anthropic".to_owned(),
        profile_id: "one".to_owned(),
        last_used_at: Some(make.now()),
        ..StandingRow::default()
    };
    for standing in [&whole, &of_model, &fresh] {
        note(store, &make, standing).await;
    }
    assert_eq!(read(store, &make).await, [fresh, of_model, whole]);
}

async fn the_later_standing_counts_whatever_the_order_of_writing(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    let earlier = make.standing("openai", "one");
    let used = StandingRow {
        errors: 0,
        reason: None,
        cooldown_until: None,
        last_used_at: Some(make.now()),
        ..earlier.clone()
    };
    for order in [[&earlier, &used], [&used, &earlier]] {
        store.clear_standings(make.tenant(), "openai", None).await.unwrap();
        for standing in order {
            note(store, &make, standing).await;
        }
        assert_eq!(read(store, &make).await, std::slice::from_ref(&used));
    }
    // Of two at the same time the one that is written last.
    let same = StandingRow { errors: 9, ..used };
    note(store, &make, &same).await;
    assert_eq!(read(store, &make).await, [same]);
}

async fn standings_are_cleared_by_credential_and_by_provider(store: &ScratchStore) {
    let make = Requests::new("local", 1);
    for (provider, profile) in [("a", "one"), ("a", "two"), ("b", "one")] {
        note(store, &make, &make.standing(provider, profile)).await;
    }
    let of_model = StandingRow { model: "m".to_owned(), ..make.standing("a", "one") };
    note(store, &make, &of_model).await;
    let left = async || -> Vec<(String, String)> {
        read(store, &make).await.into_iter().map(|row| (row.provider, row.profile_id)).collect()
    };
    let row = |provider: &str, profile: &str| (provider.to_owned(), profile.to_owned());
    store.clear_standings(make.tenant(), "a", Some("one")).await.unwrap();
    assert_eq!(left().await, [row("a", "two"), row("b", "one")]);
    store.clear_standings(make.tenant(), "a", None).await.unwrap();
    assert_eq!(left().await, [row("b", "one")]);
}

async fn standings_stay_in_their_tenant(store: &ScratchStore) {
    let (one, two) = (Requests::new("one", 1), Requests::new("two", 1));
    let standing = one.standing("a", "one");
    note(store, &one, &standing).await;
    assert_eq!(read(store, &two).await, []);
    store.clear_standings(two.tenant(), "a", None).await.unwrap();
    note(store, &two, &StandingRow { errors: 7, ..two.standing("a", "one") }).await;
    assert_eq!(read(store, &one).await, [standing]);
}
