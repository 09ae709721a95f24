//! A guest program and its driver in one: it changes the card's tables and tells the judge.

use std::io::{BufRead as _, BufReader, PipeReader, PipeWriter, Write as _};
use std::sync::{Arc, Mutex};

use crate::protocol::{Message, Region, Word};

use super::card::{Key, Lie, State};

pub struct Guest {
    from_judge: BufReader<PipeReader>,
    to_judge: PipeWriter,
    pub card: Arc<Mutex<State>>,
    next: u32,
    stopped: bool,
}

impl Guest {
    pub fn new(from_judge: PipeReader, to_judge: PipeWriter, card: Arc<Mutex<State>>) -> Self {
        let from_judge = BufReader::new(from_judge);
        Self { from_judge, to_judge, card, next: 1, stopped: false }
    }

    /// Says it and waits for the word.
    pub fn say(&mut self, message: &Message) -> Word {
        let line = serde_json::to_string(message).unwrap();
        self.say_line(&line)
    }

    pub fn say_line(&mut self, line: &str) -> Word {
        let mut word = String::new();
        if !self.stopped && writeln!(self.to_judge, "{line}").is_ok() {
            self.from_judge.read_line(&mut word).unwrap();
        }
        match word.as_str() {
            "go\n" => Word::Go,
            "again\n" => Word::Again,
            _ => {
                self.stopped = true;
                Word::Stop
            }
        }
    }

    pub fn hello(&mut self) {
        let (kernel, device) = ("6.12-test".to_owned(), "mlx5_0".to_owned());
        self.say(&Message::Hello { protocol: 1, kernel, device });
        self.say(&Message::Warm {});
    }

    pub fn case(&mut self, name: &str) {
        self.say(&Message::Case { name: name.to_owned() });
    }

    /// Makes a key in the card for these frames, a page each.
    pub fn register(
        &mut self,
        (address, length): (u64, u64),
        access: u32,
        domain: u32,
        frames: &[u64],
    ) -> Region {
        let id = self.next;
        self.next += 1;
        let key = (0x1000 + id) << 8 | id;
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let mut left = length;
        for (index, frame) in frames.iter().enumerate() {
            let offset = if index == 0 { address % 4096 } else { 0 };
            let take = left.min(4096 - offset);
            left -= take;
            runs.push((frame * 4096 + offset, take));
        }
        let entry = Key { variant: id, domain, access, start: address, length, runs };
        let mut card = self.card.lock().unwrap();
        card.keys.insert(key >> 8, entry);
        card.edited += 1;
        drop(card);
        Region {
            id,
            address: address.into(),
            length,
            iova: address.into(),
            access,
            lkey: key.into(),
            rkey: key.into(),
            page: 4096,
            domain: Some(domain),
            frames: frames.iter().map(|&frame| (frame, 1)).collect(),
        }
    }

    pub fn show(&mut self, regions: &[Region]) -> Word {
        self.say(&Message::Registered { regions: regions.to_vec(), story: false })
    }

    /// Takes the key out of the card.
    pub fn free(&mut self, region: &Region) {
        let mut card = self.card.lock().unwrap();
        card.edited += 1;
        if !card.lies(Lie::Immortal) {
            card.keys.remove(&u32::try_from(region.lkey.0 >> 8).unwrap());
        }
    }

    pub fn withdraw(&mut self, regions: &[Region]) -> Word {
        for region in regions {
            self.free(region);
        }
        self.say(&Message::Deregistered { ids: regions.iter().map(|region| region.id).collect() })
    }

    /// A call that fails with EFAULT. The card sees something of it the first `noisy` times.
    pub fn refused(&mut self, noisy: u32) {
        for attempt in 0.. {
            self.say(&Message::Mark {});
            let mut card = self.card.lock().unwrap();
            card.created += u64::from(card.lies(Lie::CreatesOnFailure) || attempt < noisy);
            card.edited += u64::from(card.lies(Lie::EditsOnFailure));
            drop(card);
            let call = "ibv_reg_mr".to_owned();
            if self.say(&Message::Refused { call, errno: 14, expected: vec![14] }) != Word::Again {
                return;
            }
        }
    }

    pub fn rest(&mut self) {
        let mut card = self.card.lock().unwrap();
        match card.lie {
            Some(Lie::LeakedDomain) => *card.objects.get_mut("pd").unwrap() += 1,
            Some(Lie::LostQueue) => *card.objects.get_mut("qp").unwrap() -= 1,
            Some(Lie::LeakedKey) => {
                let runs = vec![(4096, 1)];
                let key = Key { variant: 0, domain: 0, access: 0, start: 0, length: 1, runs };
                card.keys.insert(1, key);
            }
            _ => {}
        }
        // The stock of free keys is the driver's own affair.
        *card.objects.get_mut("mkey").unwrap() += 17;
        drop(card);
        self.say(&Message::Rest {});
    }

    pub fn unload(&mut self) {
        let mut card = self.card.lock().unwrap();
        card.objects.values_mut().for_each(|count| *count = 0);
        card.keys.clear();
        card.pages = 0;
        match card.lie {
            Some(Lie::FullTable) => *card.objects.get_mut("srq").unwrap() += 1,
            Some(Lie::KeptPage) => card.pages = 1,
            _ => {}
        }
        drop(card);
        self.say(&Message::Unloaded { how: "modprobe -r".to_owned() });
        self.say(&Message::End {});
    }

    /// The first case, up to its two registrations.
    pub fn two(&mut self) -> [Region; 2] {
        // Two neighbours among the three frames.
        let first = self.register((0x70_0000_0801, 0x1900), 1 | 4, 5, &[0x51, 0x77, 0x78]);
        let second = self.register((0x70_0000_5000, 0x1000), 0, 6, &[0x53]);
        self.say(&Message::Registered { regions: vec![first.clone()], story: true });
        [first, second]
    }

    /// The first case.
    pub fn plain(&mut self) {
        self.case("plain");
        let [first, second] = self.two();
        // Shown again, with another beside it.
        self.show(&[second.clone(), first.clone()]);
        // A change gives it another key.
        let old_key = u32::try_from(first.lkey.0 >> 8).unwrap();
        if !self.card.lock().unwrap().lies(Lie::ImmortalWhenChanged) {
            self.free(&first);
        }
        let changed = self.register((0x70_0000_0fff, 2), 1 | 2 | 4, 6, &[0x99, 0x12]);
        let changed = Region { id: first.id, ..changed };
        self.show(std::slice::from_ref(&changed));
        self.card.lock().unwrap().keys.remove(&old_key);
        self.withdraw(&[changed, second]);
    }

    /// The second case.
    pub fn failing(&mut self) {
        self.case("refused");
        self.refused(0);
        // The driver's stock is filled meanwhile: no failure.
        self.refused(2);
    }
}

pub fn honest(guest: &mut Guest) {
    guest.hello();
    guest.plain();
    guest.failing();
    guest.rest();
    guest.unload();
}
