// leave-together — the workers of a job leave together, after one of them has told what the job came to. A worker that left before would have ended well while the
// job may still fail.
//
//   round 0      all come, nobody has told
//   round n      the first of those who came to the round before tells, and comes then; all others come at once
//                one of them came with TOLD ──► everybody leaves
//                none did: it died over it  ──► round n + 1, with the first of those who are left
//
// Invariants:
//   FailureNotice.F1. The word is given by the first worker; when that one dies over it, by the next.
//   FailureNotice.F2. Nobody leaves before it is given. The one that gives it lives, or is known to be dead, and all that it waits for has deadlines: so has this.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";

const NAME = "farewell";
const TOLD = "told";

/** Every worker calls it. Throws what `tell` throws at the worker that calls it. */
export async function farewell(session: Pick<Session, "rendezvous" | "rank">, tell: () => Promise<void>, wait: WaitOptions): Promise<void> {
  let present = await session.rendezvous.meet(NAME, { generation: 0 }, wait);
  for (let generation = 1; ; generation++) {
    const isFirst = present[0]?.rank === session.rank;
    if (isFirst) await tell(); // F1
    present = await session.rendezvous.meet(NAME, { generation, value: isFirst ? TOLD : "" }, wait);
    if (present.some(({ value }) => value === TOLD)) return; // F2
  }
}
