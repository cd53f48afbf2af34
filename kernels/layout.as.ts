// layout — the first page of an arena: the allocator's state and the scratch lists of the table kernels, at fixed
// addresses.
//
//   address   bytes   what
//         0      64   zeros that are never written: address 0 means "nowhere"
//        64      16   frontier u32, end u32, used bytes u64
//        80      40   the update in hand (optimizers/job.as.ts)
//       120       8   up to where pages ahead of the frontier were touched; what was loaded only to be in the cache
//       128     400   heads of the allocator's free lists, u32 for each size class
//       576     128   masks of 0 to 15 bytes, u64 each, for keys that are decoded
//      1024    2560   hashes (u64), buckets, rows of the batch in hand and the indexes that are still open (u32), BATCH
//                     of each
//      3584     400   heads of the reserve's free lists
//      3984      36   the reserve: frontier u32, end u32, used bytes u64, its first byte u32, bytes of state that lie
//                     in it u32, of tables set aside u32, of tables that were overdrawn u32, up to how many it takes of
//                     those now u32
//      4096   21504   hashes of the entries that a segment moves, u64 each
//     25600   10752   their rows, u32 each
//     40960           the first byte that is handed out

export const ZERO: usize = 0;
export const FRONTIER: usize = 64;
export const END: usize = 68;
export const USED: usize = 72;
/** The rows that an optimizer visits. */
export const UPDATE_JOB: usize = 80;
/** Everything below is in memory, as far as the allocator knows. */
export const TOUCHED: usize = 120;
/** Only written, so that no compiler drops the loads that bring lines into the cache. */
export const LISTED_TOUCHED: usize = 124;
export const FREE_LISTS: usize = 128;

export const BYTE_MASKS: usize = 576;

/** How many keys are probed together. */
export const BATCH: u32 = 128;
export const BATCH_HASHES: usize = 1024;
export const BATCH_BUCKETS: usize = BATCH_HASHES + BATCH * 8;
export const BATCH_ROWS: usize = BATCH_BUCKETS + BATCH * 4;
export const BATCH_OPEN: usize = BATCH_ROWS + BATCH * 4;

export const RESERVE_FREE_LISTS: usize = 3584;
export const RESERVE_FRONTIER: usize = 3984;
export const RESERVE_END: usize = 3988;
export const RESERVE_USED: usize = 3992;
export const RESERVE_START: usize = 4000;
export const LENT: usize = 4004;
/** Bytes of the tables that checkpoints set aside, wherever they lie. */
export const ASIDE: usize = 4008;
/** Bytes of tables that found no room but the reserve; a part of LENT. */
export const OVERDRAWN: usize = 4012;
/** Up to how many there may be now; 0 but for a moment. */
export const OVERDRAFT: usize = 4016;

/** The most entries that one segment holds: 7 chunks × 32 buckets × 12 slots. */
export const SEGMENT_SLOTS_MAX: u32 = 2688;
export const MOVE_HASHES: usize = 4096;
export const MOVE_ROWS: usize = MOVE_HASHES + SEGMENT_SLOTS_MAX * 8;

export const ARENA_START: u32 = 40960;

/** What the fallible kernels return; the same numbers as in src/kernel/kernels.ts. */
export const DONE: i32 = 0;
export const NO_ROOM: i32 = 1;
export const KEY_MISSING: i32 = 2;
