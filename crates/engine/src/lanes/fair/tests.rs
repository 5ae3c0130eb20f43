//! What the queue promises, for any order of coming and going.

use proptest::prelude::*;

use super::*;

/// Whose it is, and the how many-eth of theirs.
type Item = (Path, u32);

fn path(tenant: u8, agent: u8) -> Path {
    [format!("t{tenant}"), format!("a{agent}")]
}

fn in_queue(pushed: Pushed<Item>) -> Ticket {
    match pushed {
        Pushed::In(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

fn drain(queue: &mut FairQueue<Item>) -> Vec<Item> {
    std::iter::from_fn(|| queue.pop()).collect()
}

#[derive(Debug, Clone)]
enum Step {
    Push(u8, u8),
    Pop,
    /// Takes the how many-eth of those that wait out of turn.
    Remove(usize),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0..3u8, 0..3u8).prop_map(|(tenant, agent)| Step::Push(tenant, agent)),
        2 => Just(Step::Pop),
        1 => (0..20usize).prop_map(Step::Remove),
    ];
    proptest::collection::vec(step, 0..200)
}

/// Plays the steps; what waits at the end, in the order of coming, with its tickets.
fn play(queue: &mut FairQueue<Item>, steps: &[Step]) -> Vec<(Ticket, Item)> {
    let mut waiting: Vec<(Ticket, Item)> = Vec::new();
    for (count, step) in (0u32..).zip(steps) {
        match *step {
            Step::Push(tenant, agent) => {
                let item = (path(tenant, agent), count);
                waiting.push((in_queue(queue.push(&item.0, item.clone())), item));
            }
            Step::Pop => {
                let popped = queue.pop();
                assert_eq!(popped.is_none(), waiting.is_empty(), "whoever waits is found");
                waiting.retain(|(_, item)| Some(item) != popped.as_ref());
            }
            Step::Remove(at) if at < waiting.len() => {
                let (ticket, item) = waiting.remove(at);
                assert_eq!(queue.remove(&item.0, ticket), Some(item.clone()));
                assert_eq!(queue.remove(&item.0, ticket), None);
            }
            Step::Remove(_) => {}
        }
        assert_eq!(queue.len(), waiting.len());
    }
    waiting
}

proptest! {
    #[test]
    fn everything_comes_out_once_and_in_order_for_each(steps in steps()) {
        let mut queue = FairQueue::new(1_000);
        let mut waiting: Vec<Item> = play(&mut queue, &steps).into_iter().map(|(_, item)| item).collect();
        let popped = drain(&mut queue);
        for tenant in 0..3 {
            for agent in 0..3 {
                let of = |list: &[Item]| -> Vec<u32> {
                    list.iter().filter(|(whose, _)| *whose == path(tenant, agent)).map(|(_, at)| *at).collect()
                };
                prop_assert_eq!(of(&popped), of(&waiting));
            }
        }
        let mut popped = popped;
        popped.sort();
        waiting.sort();
        prop_assert_eq!(popped, waiting);
    }

    #[test]
    fn as_many_come_first_as_was_said(steps in steps()) {
        let mut queue = FairQueue::new(1_000);
        let waiting = play(&mut queue, &steps);
        let said: Vec<(Item, usize)> = waiting
            .into_iter()
            .map(|(ticket, item)| (item.clone(), queue.ahead(&item.0, ticket).unwrap()))
            .collect();
        let popped = drain(&mut queue);
        for (item, ahead) in said {
            prop_assert_eq!(popped.iter().position(|popped| *popped == item), Some(ahead));
        }
    }

    #[test]
    fn nobody_waits_for_more_than_one_turn_of_each_other(
        steps in steps(),
        crowd in 1..500usize,
        tenants in 1..6u8,
    ) {
        let mut queue = FairQueue::new(10_000);
        play(&mut queue, &steps);
        for tenant in 0..tenants {
            for at in (0u32..).take(crowd) {
                in_queue(queue.push(&path(tenant, 0), (path(tenant, 0), 1_000 + at)));
            }
        }
        // Three tenants may be there from before.
        let most = usize::from(tenants.max(3));
        let newcomer = (path(9, 0), 0);
        let ticket = in_queue(queue.push(&newcomer.0, newcomer.clone()));
        prop_assert!(queue.ahead(&newcomer.0, ticket).unwrap() <= most);
        // Inside a tenant: at most three agents before it, in as many turns of every tenant.
        let newcomer = (path(0, 9), 0);
        let ticket = in_queue(queue.push(&newcomer.0, newcomer.clone()));
        prop_assert!(queue.ahead(&newcomer.0, ticket).unwrap() <= 3 + 4 * (most + 1));
    }

    #[test]
    fn it_never_holds_more_than_its_bound_and_takes_from_the_largest_crowd(
        pushes in proptest::collection::vec((0..4u8, 0..3u8), 0..300),
        bound in 1..40usize,
    ) {
        let mut queue = FairQueue::new(bound);
        let mut kept: Vec<Item> = Vec::new();
        for (count, (tenant, agent)) in (0u32..).zip(pushes) {
            let item = (path(tenant, agent), count);
            let of_tenant = |kept: &[Item], whose: &Path| kept.iter().filter(|(of, _)| of[0] == whose[0]).count();
            match queue.push(&item.0, item.clone()) {
                Pushed::In(_) => prop_assert!(kept.len() < bound),
                Pushed::Instead(_, left) => {
                    prop_assert_eq!(kept.len(), bound);
                    prop_assert!(of_tenant(&kept, &left.0) >= of_tenant(&kept, &item.0));
                    kept.retain(|item| *item != left);
                }
                Pushed::Full(back) => {
                    prop_assert_eq!(&back, &item);
                    let own = of_tenant(&kept, &item.0);
                    prop_assert!(kept.iter().all(|(whose, _)| of_tenant(&kept, whose) <= own));
                    continue;
                }
            }
            kept.push(item);
            prop_assert!(queue.len() <= bound);
        }
        let mut popped = drain(&mut queue);
        popped.sort();
        kept.sort();
        prop_assert_eq!(popped, kept);
    }
}

#[test]
fn a_thousand_of_one_delay_the_first_of_another_by_one() {
    let mut queue = FairQueue::new(10_000);
    for at in 0..1_000 {
        in_queue(queue.push(&path(0, 0), (path(0, 0), at)));
    }
    let ticket = in_queue(queue.push(&path(1, 0), (path(1, 0), 0)));
    assert_eq!(queue.ahead(&path(1, 0), ticket), Some(1));
    assert_eq!(queue.pop(), Some((path(0, 0), 0)));
    assert_eq!(queue.pop(), Some((path(1, 0), 0)));
}

#[test]
fn a_full_queue_of_one_has_room_for_the_first_of_another() {
    let mut queue = FairQueue::new(3);
    for at in 0..3 {
        in_queue(queue.push(&path(0, 0), (path(0, 0), at)));
    }
    assert_eq!(queue.push(&path(0, 0), (path(0, 0), 3)), Pushed::Full((path(0, 0), 3)));
    let pushed = queue.push(&path(0, 1), (path(0, 1), 0));
    assert!(matches!(pushed, Pushed::Instead(_, (_, 2))), "the last of the crowd leaves: {pushed:?}");
    let pushed = queue.push(&path(1, 0), (path(1, 0), 0));
    assert!(matches!(pushed, Pushed::Instead(_, (_, 1))), "{pushed:?}");
}
