//! A disk that fills up while messages flow: what was acknowledged is answered, the rest is refused and comes again.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

use rustix::process::Signal;
use tempfile::TempDir;
use tidegate_testkit::host::{Account, STARTED, Until, Weather};
use tidegate_testkit::network::Network;
use tidegate_testkit::skip::skip_loudly;
use tidegate_testkit::stores::{Location, ScratchStore};

use super::check;
use super::world::World;

/// A small disk of its own, for root only.
struct SmallDisk {
    folder: TempDir,
}

impl SmallDisk {
    fn new() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        let mounted = mount.args(["-t", "tmpfs", "-o", "size=24m", "tmpfs"]).arg(folder.path()).output();
        if mounted.is_ok_and(|done| done.status.success()) {
            return Some(Self { folder });
        }
        skip_loudly("only root can mount a small disk");
        None
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Takes all the room there is, again and again until there is none.
    fn fill(&self) {
        let mut filler = File::options().append(true).create(true).open(self.filler()).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
        while filler.write_all(&[0]).is_ok() {}
    }

    fn free(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.folder.path().join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}

/// How often the network offered its last message.
fn offers(world: &World, network: &Network) -> usize {
    let last = network.posted().pop().unwrap().id;
    let text = fs::read_to_string(world.plan.world.join("blind/delivered.jsonl")).unwrap_or_default();
    text.lines().filter(|line| line.contains(&format!("\"{last}\""))).count()
}

mod sqlite {
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn on_a_full_disk_nothing_acknowledged_is_lost_and_all_goes_on_with_room_again() {
        super::fills_up().await;
    }
}

async fn fills_up() {
    let Some(disk) = SmallDisk::new() else { return };
    let location = Location::Sqlite { path: disk.home().join("tidegate.db") };
    let mut store = ScratchStore::at(location.clone());
    let mut world = World::new(&location, 1);
    world.plan.home = disk.home();
    world.plan.weather = Weather::Calm;
    world.plan.accounts = vec![Account::Blind];
    world.plan.until = Until::Signal;
    fs::create_dir_all(&world.plan.home).unwrap();
    let ballast = disk.home().join("service/ballast");
    let network = world.network(Account::Blind);
    let post = |count: usize| {
        for _ in 0..count {
            let number = network.posted().len() + 1;
            network.post(&format!("p{}", number % 3), &format!("{number}: {}", "much, ".repeat(40)));
        }
    };

    post(6);
    let running = world.start(&[("TIDEGATE_OFFLINE_DELAY_MS", "10")]);
    running.await_line(STARTED);
    running.until("there is a ballast to give up", || ballast.exists());
    running.until("six acknowledged", || network.acknowledged().len() == 6);
    disk.fill();
    // Their ends need room that only the ballast has.
    running.until("six answered", || network.visible().len() == 6);
    assert!(!ballast.exists(), "the ballast was given up");

    // Now there is no room left for anything new, and the network is told so.
    disk.fill();
    for _ in 0..20 {
        post(3);
        running.until("offered", || offers(&world, &network) > 0);
        disk.fill();
        if network.acknowledged().len() < network.posted().len() {
            break;
        }
    }
    running.until("refused and offered again", || offers(&world, &network) > 3);
    assert!(network.acknowledged().len() < network.posted().len(), "a full disk refuses");
    check::from_outside(&world);

    disk.free();
    let all = network.posted().len();
    running.until("all answered", || network.visible().len() == all);
    running.signal(Signal::TERM);
    let ended = running.wait();
    assert!(ended.status.success(), "{ended:?}");

    world.plan.until = Until::Quiet;
    world.run(&[]);
    assert!(ballast.exists(), "the ballast is back");
    let tally = check::everything(&mut store, &world).await;
    assert_eq!(tally.answered, all, "{tally:?}");
}
