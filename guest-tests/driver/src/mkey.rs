//! Protection domains and memory keys, from the driver's side.

use layouts::{
    AllocPdIn, AllocPdOut, CreateMkeyIn, CreateMkeyOut, DeallocPdIn, DeallocPdOut, DestroyMkeyIn,
    DestroyMkeyOut, Mkc, Opcode, QueryMkeyIn, QueryMkeyOut,
};

use crate::driver::Driver;
use crate::port::{Port, Result, broken};

/// Access modes.
const PHYSICAL: u8 = 0;
const MTT: u8 = 1;
/// The key is for any queue pair.
const ANY_QP: u32 = 0xff_ffff;
/// A key's context counts translations in 16-byte units, two MTTs each.
const MTTS_PER_OCTWORD: u64 = 2;

/// What may be done through a key beside local reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access {
    /// Local write.
    pub local_write: bool,
    /// Remote read.
    pub remote_read: bool,
    /// Remote write.
    pub remote_write: bool,
    /// Remote atomic.
    pub remote_atomic: bool,
}

impl Access {
    /// Everything that every card has.
    pub const ALL: Self =
        Self { local_write: true, remote_read: true, remote_write: true, remote_atomic: false };

    pub(crate) fn fill(self, mkc: &mut Mkc<&mut [u8]>) {
        mkc.set_lr(true);
        mkc.set_lw(self.local_write);
        mkc.set_rr(self.remote_read);
        mkc.set_rw(self.remote_write);
        mkc.set_a(self.remote_atomic);
    }
}

/// Memory to be registered.
#[derive(Debug, Clone)]
pub struct Region {
    /// First address in the key's address space.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// Page size as a power of two.
    pub log_page_size: u8,
    /// DMA addresses of the pages; the first holds `start`.
    pub pages: Vec<u64>,
    /// Protection domain.
    pub pd: u32,
    /// Rights.
    pub access: Access,
}

impl<P: Port> Driver<P> {
    /// ALLOC_PD.
    pub fn alloc_pd(&mut self) -> Result<u32> {
        let reply = self.exec(Opcode::ALLOC_PD, 0, [0; AllocPdIn::SIZE], AllocPdOut::SIZE)?;
        Ok(AllocPdOut(&reply[..]).pd())
    }

    /// DEALLOC_PD.
    pub fn dealloc_pd(&mut self, pd: u32) -> Result<()> {
        let mut input = [0; DeallocPdIn::SIZE];
        DeallocPdIn(&mut input[..]).set_pd(pd);
        self.exec(Opcode::DEALLOC_PD, 0, input, DeallocPdOut::SIZE)?;
        Ok(())
    }

    /// A key for all of memory by DMA address.
    pub fn create_dma_key(&mut self, pd: u32) -> Result<u32> {
        let mut input = [0; CreateMkeyIn::SIZE];
        let mut view = CreateMkeyIn(&mut input[..]);
        let mut mkc = view.memory_key_mkey_entry_mut();
        mkc.set_access_mode_1_0(PHYSICAL);
        mkc.set_length64(true);
        Access { local_write: true, ..Access::default() }.fill(&mut mkc);
        self.create_mkey(&mut input, pd)
    }

    /// A key for `region`, whose translations are in the command: how memory is registered without
    /// UMR.
    pub fn create_mtt_key(&mut self, region: &Region) -> Result<u32> {
        self.create_mkey(&mut mtt_key_command(region), region.pd)
    }

    /// A key with room for `entries` translations that can't be used until a UMR enables it.
    pub fn create_free_key(&mut self, pd: u32, entries: u64) -> Result<u32> {
        let mut input = [0; CreateMkeyIn::SIZE];
        let mut view = CreateMkeyIn(&mut input[..]);
        let mut mkc = view.memory_key_mkey_entry_mut();
        mkc.set_free(true);
        mkc.set_umr_en(true);
        mkc.set_access_mode_1_0(MTT);
        mkc.set_translations_octword_size(entries.div_ceil(MTTS_PER_OCTWORD) as u32);
        mkc.set_log_page_size(12);
        self.create_mkey(&mut input, pd)
    }

    /// CREATE_MKEY with the rest of the context filled in. The variant byte is the driver's to
    /// choose.
    fn create_mkey(&mut self, input: &mut [u8], pd: u32) -> Result<u32> {
        self.variant = self.variant.wrapping_add(1);
        let variant = self.variant;
        let mut view = CreateMkeyIn(&mut *input);
        let mut mkc = view.memory_key_mkey_entry_mut();
        mkc.set_pd(pd);
        mkc.set_qpn(ANY_QP);
        mkc.set_mkey_7_0(variant);
        let reply = self.exec(Opcode::CREATE_MKEY, 0, input, CreateMkeyOut::SIZE)?;
        match CreateMkeyOut(&reply[..]).mkey_index() {
            0 => broken("a key with index 0"),
            index => Ok(index << 8 | u32::from(variant)),
        }
    }

    /// QUERY_MKEY: the key's context.
    pub fn query_mkey(&mut self, key: u32) -> Result<[u8; Mkc::SIZE]> {
        let mut input = [0; QueryMkeyIn::SIZE];
        QueryMkeyIn(&mut input[..]).set_mkey_index(key >> 8);
        let reply = self.exec(Opcode::QUERY_MKEY, 0, input, QueryMkeyOut::SIZE)?;
        let view = QueryMkeyOut(&reply[..]);
        match view.memory_key_mkey_entry().0.first_chunk() {
            Some(context) => Ok(*context),
            None => broken("a reply without a key context"),
        }
    }

    /// DESTROY_MKEY.
    pub fn destroy_mkey(&mut self, key: u32) -> Result<()> {
        let mut input = [0; DestroyMkeyIn::SIZE];
        DestroyMkeyIn(&mut input[..]).set_mkey_index(key >> 8);
        self.exec(Opcode::DESTROY_MKEY, 0, input, DestroyMkeyOut::SIZE)?;
        Ok(())
    }
}

/// The input of a CREATE_MKEY for `region`, all but what [`Driver`] fills in.
pub fn mtt_key_command(region: &Region) -> Vec<u8> {
    let entries = region.pages.len().next_multiple_of(MTTS_PER_OCTWORD as usize);
    let octwords = region.pages.len().div_ceil(MTTS_PER_OCTWORD as usize) as u32;
    let mut input = vec![0; CreateMkeyIn::SIZE + 8 * entries];
    let mut view = CreateMkeyIn(&mut input[..]);
    view.set_opcode(Opcode::CREATE_MKEY.0);
    view.set_translations_octword_actual_size(octwords);
    for (n, &page) in region.pages.iter().enumerate() {
        view.set_klm_pas_mtt(n, page);
    }
    let mut mkc = view.memory_key_mkey_entry_mut();
    mkc.set_access_mode_1_0(MTT);
    region.access.fill(&mut mkc);
    mkc.set_qpn(ANY_QP);
    mkc.set_pd(region.pd);
    mkc.set_start_addr(region.start);
    mkc.set_len(region.len);
    mkc.set_log_page_size(region.log_page_size);
    mkc.set_translations_octword_size(octwords);
    input
}
