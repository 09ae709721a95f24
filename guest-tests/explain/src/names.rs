//! What functions are for, in words. Kernels differ; a function that is not here is told by its own name
//! and only where everything is shown.

use serde::Serialize;

/// What time is spent on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// The program and the verbs library.
    Library,
    /// The system call and the kernel's uverbs layer.
    Uverbs,
    /// Pages are pinned, or let go.
    Pinning,
    /// Pages get addresses for the device, or lose them.
    Dma,
    /// The driver.
    Driver,
    /// What the driver needs once: its own queue pair for UMR.
    Setup,
    /// The thread waits for the card.
    Waiting,
    /// The processor did something else.
    Other,
    /// What is between guest and card: doorbells, DMA, interrupts.
    Bus,
    /// The card.
    Card,
}

impl Category {
    /// In words.
    pub fn text(self) -> &'static str {
        match self {
            Self::Library => "program and library",
            Self::Uverbs => "system call and uverbs",
            Self::Pinning => "pinning",
            Self::Dma => "DMA mapping",
            Self::Driver => "driver",
            Self::Setup => "making the driver's UMR queue pair, once",
            Self::Waiting => "waiting for the card",
            Self::Other => "other threads",
            Self::Bus => "bus",
            Self::Card => "card",
        }
    }
}

/// A function that is part of the story.
#[derive(Debug)]
pub(crate) struct Known {
    /// Its name, or how its name begins when it ends with `*`.
    name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) category: Category,
}

macro_rules! known {
    ($($category:ident: { $($name:literal => $title:literal,)* })*) => {
        &[$($(Known { name: $name, title: $title, category: Category::$category },)*)*]
    };
}

/// The functions of the story.
const KNOWN: &[Known] = known! {
    Uverbs: {
        "ib_uverbs_ioctl" => "uverbs: the kernel takes the call",
        "ib_uverbs_write" => "uverbs: the kernel takes the call, in its old form",
        "ib_uverbs_reg_mr" => "uverbs handler: register memory",
        "ib_uverbs_rereg_mr" => "uverbs handler: change a registration",
        "ib_uverbs_dereg_mr" => "uverbs handler: end a registration",
        "ib_uverbs_handler_UVERBS_METHOD_REG_MR" => "uverbs handler: register memory",
        "ib_uverbs_handler_UVERBS_METHOD_REG_DMABUF_MR" => "uverbs handler: register a DMA buffer",
        "ib_uverbs_alloc_pd" => "uverbs handler: make a protection domain",
        "ib_uverbs_create_qp" => "uverbs handler: make a queue pair",
        "ib_uverbs_modify_qp" => "uverbs handler: change a queue pair",
        "ib_uverbs_create_cq" => "uverbs handler: make a completion queue",
        "ib_uverbs_handler_*" => "uverbs handler",
        "uverbs_destroy_uobject" => "uverbs: end the object",
        "ib_uverbs_close" => "uverbs: the device file is closed",
    }
    Pinning: {
        "ib_umem_get" => "get the memory ready: count it as locked, pin it",
        "__ib_umem_get_va" => "get the memory ready: count it as locked, pin it",
        "pin_user_pages_fast" => "pin pages",
        "gup_fast_fallback" => "fast: walk the page tables without a lock",
        "internal_get_user_pages_fast" => "fast: walk the page tables without a lock",
        "__gup_longterm_locked" => "slow: fault pages in, under the lock of the address space",
        "ib_umem_release" => "let the memory go",
        "unpin_user_page_range_dirty_lock" => "unpin pages",
        "ib_umem_find_best_pgsz" => "choose the page size",
    }
    Dma: {
        "dma_map_sgtable" => "map the pages for DMA",
        "dma_unmap_sg_attrs" => "end the DMA mapping",
    }
    Driver: {
        "mlx5_ib_reg_user_mr" => "driver: register memory",
        "mlx5_ib_dereg_mr" => "driver: end the registration",
        "mlx5_ib_rereg_user_mr" => "driver: change the registration",
        "create_real_mr" => "driver: a key with translations",
        "reg_create" => "driver: make the key by a command that holds the translations",
        "mlx5_mr_cache_alloc" => "driver: take a key from the cache",
        "_mlx5_mr_cache_alloc" => "driver: take a key from the cache",
        "ib_frmr_pool_pop" => "driver: take a key from the pool",
        "ib_frmr_pool_push" => "driver: give the key back to the pool",
        "mlx5r_create_mkeys" => "driver: no key at hand, make some by commands",
        "create_cache_mkey" => "driver: no key at hand, make one",
        "mlx5_ib_create_mkey" => "driver: make a key by a command",
        "mlx5_core_destroy_mkey" => "driver: destroy the key by a command",
        "mlx5r_umr_update_mr_pas" => "driver: write the translations by UMR",
        "mlx5r_umr_update_xlt" => "driver: write the translations by UMR",
        "mlx5r_umr_revoke_mr" => "driver: revoke the key by UMR",
        "mlx5r_umr_post_send_wait" => "driver: post a UMR work request and wait",
        "mlx5r_umr_done" => "driver: the UMR work request is done",
        "cmd_exec" => "command",
        "cmd_work_handler" => "driver: write the command's entry, ring the doorbell",
        "mlx5_cmd_comp_handler" => "driver: take the command's answer",
        "mlx5_ib_alloc_pd" => "driver: make a protection domain",
        "mlx5_ib_create_qp" => "driver: make a queue pair",
        "mlx5_ib_modify_qp" => "driver: change a queue pair",
        "mlx5_ib_create_cq" => "driver: make a completion queue",
        "mlx5_ib_alloc_ucontext" => "driver: make a user's context",
        "mlx5_ib_poll_cq" => "driver: look for completions",
    }
    Setup: {
        "mlx5r_umr_resource_init" => "driver: make its own queue pair for UMR, once",
    }
};

/// The function that counts memory as locked and pins it, by its names in different kernels.
pub(crate) const GETS_MEMORY: [&str; 2] = ["ib_umem_get", "__ib_umem_get_va"];

/// What a function is for, if it is part of the story.
pub(crate) fn known(name: &str) -> Option<&'static Known> {
    KNOWN.iter().find(|known| match known.name.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => name == known.name,
    })
}

/// What a function that is not part of the story belongs to, by how it is called; what its caller is
/// for otherwise.
pub(crate) fn family(name: &str) -> Option<Category> {
    Some(match name {
        name if name.starts_with("mlx5") => Category::Driver,
        name if name.starts_with("uverbs") || name.starts_with("ib_uverbs") => Category::Uverbs,
        _ => return None,
    })
}
