//! A client's file in our address space. The only unsafe code of the program is in this file.
//!
//! Everything else reaches guest memory by calling [`Mapping`] with offsets, which it checks
//! itself: no pointer leaves.
//!
//! # Memory that others change
//! The guest writes these pages whenever it likes. So no reference to them is ever made; they are
//! copied in and out by value, through atomics where one store has to be seen whole. A race with
//! the guest can make a copy a mixture of old and new bytes, as on a real bus, and nothing else.
//! The fences keep the compiler from fetching a byte a second time after it was judged.
//!
//! # Files that shrink
//! Touching a page that its owner has cut off raises SIGBUS. Our handler puts zero pages in the
//! place of the whole mapping, marks it as gone and returns, so that the access ends normally;
//! each access looks at the mark before it reports success. The handler may take no lock: it
//! finds the mapping in a list that only grows, whose entries are read under a generation count.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, fence,
};
use std::sync::{Mutex, OnceLock, PoisonError};

/// The memory is not there: its file was made shorter under us (or, were there a mistake in the
/// interval map, the offset lies outside the mapping or the mapping is read-only).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Lost;

/// The first `len` bytes of a file, shared with whoever else maps it.
#[derive(Debug)]
pub(super) struct Mapping {
    base: NonNull<u8>,
    len: usize,
    writable: bool,
    slot: &'static Slot,
}

// SAFETY: a mapping belongs to the whole process, not to the thread that made it, and no method
// relies on thread-local state. (It isn't `Sync`: only one thread at a time uses it, which the
// signal handler relies on.)
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps the file's first `len` bytes; `len` must not be zero.
    pub(super) fn new(file: BorrowedFd<'_>, len: usize, writable: bool) -> io::Result<Self> {
        catch_sigbus()?;
        let rights = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
        // SAFETY: a fresh mapping at an address of the kernel's choice disturbs no other memory.
        let base = unsafe {
            libc::mmap(ptr::null_mut(), len, rights, libc::MAP_SHARED, file.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::AddrNotAvailable)?;
        // Guest memory has no place in our core dumps. If this fails they are merely larger.
        // SAFETY: the range is the mapping just made, and the advice doesn't change its contents.
        unsafe { libc::madvise(base.as_ptr().cast(), len, libc::MADV_DONTDUMP) };
        Ok(Self { base, len, writable, slot: Slot::claim(base.as_ptr() as usize, len) })
    }

    /// How many bytes are mapped.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Whether it can be written.
    pub(super) fn writable(&self) -> bool {
        self.writable
    }

    /// Whether the file was found to be shorter than the mapping. It stays so.
    pub(super) fn gone(&self) -> bool {
        // The handler runs on the thread that touched the page, so there is nothing to order.
        self.slot.gone.load(Relaxed)
    }

    fn alive(&self) -> Result<(), Lost> {
        if self.gone() { Err(Lost) } else { Ok(()) }
    }

    /// Where `len` bytes at `offset` are, if they are all inside.
    fn at(&self, offset: usize, len: usize) -> Result<*mut u8, Lost> {
        match offset.checked_add(len) {
            // SAFETY: `offset` is at most `self.len`, so the result is in or one past the mapping.
            Some(end) if end <= self.len => Ok(unsafe { self.base.as_ptr().add(offset) }),
            _ => Err(Lost),
        }
    }

    fn at_writable(&self, offset: usize, len: usize) -> Result<*mut u8, Lost> {
        if self.writable { self.at(offset, len) } else { Err(Lost) }
    }

    /// Copies bytes out. 1, 2, 4 or 8 aligned bytes are read by one load.
    pub(super) fn read(&self, offset: usize, buf: &mut [u8]) -> Result<(), Lost> {
        let from = self.at(offset, buf.len())?;
        // SAFETY: `at` says that the bytes are inside the mapping, which lives as long as `self`;
        // `buf` is ordinary memory and so not part of it; the guards see to alignment.
        unsafe {
            match buf.len() {
                1 => buf.copy_from_slice(&[AtomicU8::from_ptr(from).load(Relaxed)]),
                2 if offset.is_multiple_of(2) => {
                    let value = AtomicU16::from_ptr(from.cast()).load(Relaxed);
                    buf.copy_from_slice(&value.to_ne_bytes());
                }
                4 if offset.is_multiple_of(4) => {
                    let value = AtomicU32::from_ptr(from.cast()).load(Relaxed);
                    buf.copy_from_slice(&value.to_ne_bytes());
                }
                8 if offset.is_multiple_of(8) => {
                    let value = AtomicU64::from_ptr(from.cast()).load(Relaxed);
                    buf.copy_from_slice(&value.to_ne_bytes());
                }
                len => ptr::copy_nonoverlapping(from, buf.as_mut_ptr(), len),
            }
        }
        // Later reads see what the guest wrote before it wrote what we have just read.
        fence(Acquire);
        self.alive()
    }

    /// Copies bytes in. 1, 2, 4 or 8 aligned bytes are written by one store.
    pub(super) fn write(&self, offset: usize, data: &[u8]) -> Result<(), Lost> {
        let to = self.at_writable(offset, data.len())?;
        // Earlier writes first: the guest that sees an owner byte flip finds the body before it.
        fence(Release);
        // SAFETY: as in `read`, and the mapping is writable.
        unsafe {
            match *data {
                [a] => AtomicU8::from_ptr(to).store(a, Relaxed),
                [a, b] if offset.is_multiple_of(2) => {
                    AtomicU16::from_ptr(to.cast()).store(u16::from_ne_bytes([a, b]), Relaxed);
                }
                [a, b, c, d] if offset.is_multiple_of(4) => {
                    AtomicU32::from_ptr(to.cast()).store(u32::from_ne_bytes([a, b, c, d]), Relaxed);
                }
                [a, b, c, d, e, f, g, h] if offset.is_multiple_of(8) => {
                    let value = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
                    AtomicU64::from_ptr(to.cast()).store(value, Relaxed);
                }
                _ => ptr::copy_nonoverlapping(data.as_ptr(), to, data.len()),
            }
        }
        self.alive()
    }

    /// Copies `len` bytes between two mappings, or within one, where they may overlap.
    pub(super) fn copy(
        (source, from): (&Self, usize),
        (target, to): (&Self, usize),
        len: usize,
    ) -> Result<(), Lost> {
        let from = source.at(from, len)?;
        let to = target.at_writable(to, len)?;
        fence(Release);
        // SAFETY: both ranges are inside mappings that live as long as the borrows; the target is
        // writable; overlap is allowed.
        unsafe { ptr::copy(from, to, len) };
        fence(Acquire);
        source.alive()?;
        target.alive()
    }

    /// Replaces the 8 aligned bytes at `offset` by `new` if they are `old`; returns what they were.
    pub(super) fn compare_exchange(
        &self,
        offset: usize,
        old: [u8; 8],
        new: [u8; 8],
    ) -> Result<[u8; 8], Lost> {
        let at = self.at_writable(offset, 8)?;
        if !offset.is_multiple_of(8) {
            return Err(Lost);
        }
        // SAFETY: inside a live, writable mapping and aligned.
        let word = unsafe { AtomicU64::from_ptr(at.cast()) };
        let (old, new) = (u64::from_ne_bytes(old), u64::from_ne_bytes(new));
        let was = match word.compare_exchange(old, new, SeqCst, SeqCst) {
            Ok(was) | Err(was) => was,
        };
        self.alive()?;
        Ok(was.to_ne_bytes())
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.slot.release();
        // SAFETY: the range is ours, whole, and nothing can reach it once `self` is gone. After a
        // SIGBUS it holds zero pages, which go the same way.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// One mapping as the signal handler sees it. Slots are used again and never freed, so that the
/// handler can walk them at any moment.
#[derive(Debug)]
struct Slot {
    /// Odd while the range is being changed.
    generation: AtomicUsize,
    start: AtomicUsize,
    len: AtomicUsize,
    gone: AtomicBool,
    taken: AtomicBool,
    /// Written before the slot is published and never after.
    next: AtomicPtr<Slot>,
}

/// The newest slot.
static SLOTS: AtomicPtr<Slot> = AtomicPtr::new(ptr::null_mut());

impl Slot {
    fn all() -> impl Iterator<Item = &'static Slot> {
        let mut next = SLOTS.load(SeqCst);
        std::iter::from_fn(move || {
            // SAFETY: the list holds only slots that were leaked, so they live for ever.
            let slot: &'static Slot = unsafe { next.as_ref() }?;
            next = slot.next.load(SeqCst);
            Some(slot)
        })
    }

    fn claim(start: usize, len: usize) -> &'static Slot {
        let free = |slot: &&Slot| slot.taken.compare_exchange(false, true, SeqCst, SeqCst).is_ok();
        let slot = Self::all().find(free).unwrap_or_else(|| {
            let slot = Box::leak(Box::new(Slot {
                generation: AtomicUsize::new(0),
                start: AtomicUsize::new(0),
                len: AtomicUsize::new(0),
                gone: AtomicBool::new(false),
                taken: AtomicBool::new(true),
                next: AtomicPtr::new(ptr::null_mut()),
            }));
            let mut newest = SLOTS.load(SeqCst);
            loop {
                slot.next.store(newest, SeqCst);
                match SLOTS.compare_exchange(newest, slot, SeqCst, SeqCst) {
                    Ok(_) => return slot,
                    Err(now) => newest = now,
                }
            }
        });
        slot.set(start, len);
        slot
    }

    fn release(&self) {
        self.set(0, 0);
        self.taken.store(false, SeqCst);
    }

    fn set(&self, start: usize, len: usize) {
        self.generation.fetch_add(1, SeqCst);
        self.start.store(start, SeqCst);
        self.len.store(len, SeqCst);
        self.gone.store(false, SeqCst);
        self.generation.fetch_add(1, SeqCst);
    }

    /// The range, unless another thread is changing it; a fault on this thread is in a mapping
    /// that this thread uses, and that one isn't being changed.
    fn range(&self) -> Option<(usize, usize)> {
        let before = self.generation.load(SeqCst);
        let range = (self.start.load(SeqCst), self.len.load(SeqCst));
        let steady = before.is_multiple_of(2) && before == self.generation.load(SeqCst);
        steady.then_some(range)
    }
}

/// What SIGBUS did before us.
static PREVIOUS: OnceLock<libc::sigaction> = OnceLock::new();

/// Installs the handler, once for the process.
fn catch_sigbus() -> io::Result<()> {
    static INSTALLED: Mutex<bool> = Mutex::new(false);
    let mut installed = INSTALLED.lock().unwrap_or_else(PoisonError::into_inner);
    if *installed {
        return Ok(());
    }
    // SAFETY: both structures are plain data for which zero is valid; the calls get pointers to
    // them that live long enough; the handler does only what a handler may do (see there). What
    // was there before is stored first, since the handler needs it as soon as it is installed.
    unsafe {
        let mut previous: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, ptr::null(), &mut previous) != 0 {
            return Err(io::Error::last_os_error());
        }
        PREVIOUS.get_or_init(|| previous);
        let mut ours: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
            on_sigbus;
        ours.sa_sigaction = handler as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        libc::sigemptyset(&mut ours.sa_mask);
        if libc::sigaction(libc::SIGBUS, &ours, ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    *installed = true;
    Ok(())
}

/// Runs in the middle of whatever touched the page: no lock, no allocation, only atomics and
/// system calls.
extern "C" fn on_sigbus(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the kernel hands a handler with SA_SIGINFO a valid `info`; `errno` is this thread's.
    unsafe {
        let errno = *libc::__errno_location();
        // A code above zero is a fault; others were sent by somebody and carry no address.
        let fault = (*info).si_code > 0;
        if !(fault && replace((*info).si_addr() as usize)) {
            forward(signal, info, context, fault);
        }
        *libc::__errno_location() = errno;
    }
}

/// Puts zero pages where the mapping that holds `address` was; false if it is none of ours.
fn replace(address: usize) -> bool {
    for slot in Slot::all() {
        let Some((start, len)) = slot.range() else { continue };
        if address.wrapping_sub(start) >= len {
            continue;
        }
        // The whole mapping and not one page: a file that shrinks has broken its promise, and
        // pages of 2 MiB could not be replaced in part.
        // SAFETY: the range is exactly one of our mappings, which nothing but copies by value
        // refers to; it stays mapped, only with other contents.
        let new = unsafe {
            libc::mmap(
                start as *mut libc::c_void,
                len,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if new == libc::MAP_FAILED {
            return false;
        }
        slot.gone.store(true, SeqCst);
        return true;
    }
    false
}

/// Does what would have been done without us.
///
/// # Safety
/// Only for the handler, with the arguments that it was given.
unsafe fn forward(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
    fault: bool,
) {
    let previous = PREVIOUS.get();
    let action = previous.map_or(libc::SIG_DFL, |previous| previous.sa_sigaction);
    match (action, previous) {
        (libc::SIG_IGN, _) if !fault => {}
        (libc::SIG_DFL | libc::SIG_IGN, _) | (_, None) => {
            // SAFETY: both are allowed in a handler. The signal is blocked until we return; then
            // it ends the process, as it would have done.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
        (_, Some(previous)) if previous.sa_flags & libc::SA_SIGINFO != 0 => {
            type WithInfo = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: SA_SIGINFO says that the address is a handler of this type.
            let handler = unsafe { std::mem::transmute::<usize, WithInfo>(action) };
            handler(signal, info, context);
        }
        (_, Some(_)) => {
            // SAFETY: without SA_SIGINFO the address is a handler of this type.
            let handler =
                unsafe { std::mem::transmute::<usize, extern "C" fn(libc::c_int)>(action) };
            handler(signal);
        }
    }
}
