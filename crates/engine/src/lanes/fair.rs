//! A queue that is fair between whoever waits in it, however many of one's own others have put there.
//!
//! Everything belongs to somebody: to a tenant, and in that to an agent. Tenants take turns, and in a tenant's turn its
//! agents do; inside one agent the order is that of coming. Pure: no clock, no lock. Bounded: what is past the bound is
//! handed back, and is taken from whoever has the most.

use std::collections::{BTreeMap, HashMap, VecDeque};

/// To whom something belongs, from the widest to the narrowest.
pub(super) type Path = [String; 2];

/// Names a thing in the queue. Whoever came later has a higher one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Ticket(pub(super) u64);

/// What became of something that was to be put into the queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Pushed<T> {
    In(Ticket),
    /// It is in; this one, of the largest crowd, had to leave for it.
    Instead(Ticket, T),
    /// There is no room, and its own crowd is the largest.
    Full(T),
}

pub(super) struct FairQueue<T> {
    root: Node<T>,
    bound: usize,
    next: u64,
}

/// Those who take turns, or at the end of a path what waits there.
enum Node<T> {
    Ring(Ring<T>),
    Line(BTreeMap<Ticket, T>),
}

struct Ring<T> {
    /// Whose turn it is, and who follows.
    turns: VecDeque<String>,
    members: HashMap<String, Node<T>>,
    len: usize,
}

impl<T> FairQueue<T> {
    pub(super) fn new(bound: usize) -> Self {
        Self { root: Node::ring(), bound: bound.max(1), next: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.root.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn push(&mut self, path: &Path, item: T) -> Pushed<T> {
        let mut left = None;
        if self.len() >= self.bound {
            let crowd = self.root.crowd(path);
            if crowd == path {
                return Pushed::Full(item);
            }
            left = self.root.take_last(&crowd);
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        self.root.put(path, ticket, item);
        match left {
            Some(left) => Pushed::Instead(ticket, left),
            None => Pushed::In(ticket),
        }
    }

    /// The one whose turn it is.
    pub(super) fn pop(&mut self) -> Option<T> {
        self.root.pop()
    }

    pub(super) fn remove(&mut self, path: &Path, ticket: Ticket) -> Option<T> {
        self.root.remove(path, ticket)
    }

    pub(super) fn get_mut(&mut self, path: &Path, ticket: Ticket) -> Option<&mut T> {
        self.root.get_mut(path, ticket)
    }

    /// How many come before it if nobody else comes.
    pub(super) fn ahead(&self, path: &Path, ticket: Ticket) -> Option<usize> {
        self.root.ahead(path, ticket)
    }

    /// Everything that waits, in no order that matters.
    pub(super) fn each(&mut self, visit: &mut dyn FnMut(Ticket, &mut T)) {
        self.root.each(visit);
    }

    /// Takes everything out.
    pub(super) fn clear(&mut self) {
        self.root = Node::ring();
    }
}

impl<T> Node<T> {
    fn ring() -> Self {
        Self::Ring(Ring { turns: VecDeque::new(), members: HashMap::new(), len: 0 })
    }

    fn len(&self) -> usize {
        match self {
            Self::Ring(ring) => ring.len,
            Self::Line(line) => line.len(),
        }
    }

    fn put(&mut self, path: &[String], ticket: Ticket, item: T) {
        match (self, path) {
            (Self::Ring(ring), [name, rest @ ..]) => {
                ring.len += 1;
                if let Some(member) = ring.members.get_mut(name) {
                    return member.put(rest, ticket, item);
                }
                let mut member = if rest.is_empty() { Self::Line(BTreeMap::new()) } else { Self::ring() };
                member.put(rest, ticket, item);
                ring.turns.push_back(name.clone());
                ring.members.insert(name.clone(), member);
            }
            (Self::Line(line), _) => {
                line.insert(ticket, item);
            }
            // All paths are of one length.
            (Self::Ring(_), []) => {}
        }
    }

    fn pop(&mut self) -> Option<T> {
        match self {
            Self::Line(line) => line.pop_first().map(|(_, item)| item),
            Self::Ring(ring) => {
                let name = ring.turns.pop_front()?;
                let member = ring.members.get_mut(&name)?;
                let item = member.pop();
                ring.len -= usize::from(item.is_some());
                if member.len() == 0 {
                    ring.members.remove(&name);
                } else {
                    ring.turns.push_back(name);
                }
                item
            }
        }
    }

    fn remove(&mut self, path: &[String], ticket: Ticket) -> Option<T> {
        match (self, path) {
            (Self::Line(line), _) => line.remove(&ticket),
            (Self::Ring(ring), [name, rest @ ..]) => {
                let item = ring.members.get_mut(name)?.remove(rest, ticket)?;
                ring.left(name);
                Some(item)
            }
            (Self::Ring(_), []) => None,
        }
    }

    /// The last one of those at the end of the path.
    fn take_last(&mut self, path: &[String]) -> Option<T> {
        match (self, path) {
            (Self::Line(line), _) => line.pop_last().map(|(_, item)| item),
            (Self::Ring(ring), [name, rest @ ..]) => {
                let item = ring.members.get_mut(name)?.take_last(rest)?;
                ring.left(name);
                Some(item)
            }
            (Self::Ring(_), []) => None,
        }
    }

    /// Who has the most, from the widest to the narrowest; the newcomer's own where others have no more.
    fn crowd(&self, newcomer: &[String]) -> Vec<String> {
        let (Self::Ring(ring), [own, rest @ ..]) = (self, newcomer) else { return Vec::new() };
        let most = ring.members.values().map(Self::len).max().unwrap_or(0);
        let is_most = |name: &&String| ring.members.get(*name).is_some_and(|member| member.len() == most);
        let Some(name) = Some(own).filter(is_most).or_else(|| ring.turns.iter().find(is_most)) else {
            return newcomer.to_vec();
        };
        let below = ring.members.get(name).map(|member| member.crowd(rest)).unwrap_or_default();
        std::iter::once(name.clone()).chain(below).collect()
    }

    fn get_mut(&mut self, path: &[String], ticket: Ticket) -> Option<&mut T> {
        match (self, path) {
            (Self::Line(line), _) => line.get_mut(&ticket),
            (Self::Ring(ring), [name, rest @ ..]) => ring.members.get_mut(name)?.get_mut(rest, ticket),
            (Self::Ring(_), []) => None,
        }
    }

    fn ahead(&self, path: &[String], ticket: Ticket) -> Option<usize> {
        match (self, path) {
            (Self::Line(line), _) => line.contains_key(&ticket).then(|| line.range(..ticket).count()),
            (Self::Ring(ring), [name, rest @ ..]) => {
                let own = ring.members.get(name)?.ahead(rest, ticket)?;
                let place = ring.turns.iter().position(|turn| turn == name)?;
                let others = ring.turns.iter().enumerate().filter(|(_, turn)| *turn != name);
                // Whoever's turn is before takes one more than we have before us.
                let taken = others.map(|(at, turn)| {
                    let len = ring.members.get(turn).map_or(0, Self::len);
                    len.min(own + usize::from(at < place))
                });
                Some(own + taken.sum::<usize>())
            }
            (Self::Ring(_), []) => None,
        }
    }

    fn each(&mut self, visit: &mut dyn FnMut(Ticket, &mut T)) {
        match self {
            Self::Line(line) => line.iter_mut().for_each(|(ticket, item)| visit(*ticket, item)),
            Self::Ring(ring) => ring.members.values_mut().for_each(|member| member.each(visit)),
        }
    }
}

impl<T> Ring<T> {
    /// One of a member's left out of turn.
    fn left(&mut self, name: &str) {
        self.len -= 1;
        if self.members.get(name).is_some_and(|member| member.len() == 0) {
            self.members.remove(name);
            self.turns.retain(|turn| turn != name);
        }
    }
}

#[cfg(test)]
mod tests;
