// raw-ceiling — finds the fastest plain way to move a flow of bytes, which is then the ceiling our figure is compared
// with. A raw reference with one fixed configuration is no ceiling: the best buffer sizes differ by size, direction and
// number of processes.

import { assert } from "../src/base/assert.ts";
import { type BenchCase, valueBytes } from "./cases.ts";
import type { Span } from "./meter.ts";
import type { RawCluster } from "./raw-cluster.ts";
import { EMPTY_MESSAGE_BYTES, type RawFlow, type RawPlan, UNLIMITED_WRITES } from "./raw-stream.ts";

const KIB = 1 << 10;
const MIB = 1 << 20;

const SMALL_PLANS: readonly RawPlan[] = [
  { readBytes: 64 * KIB, writeBytes: 64 * KIB, writesInFlight: UNLIMITED_WRITES, cork: false, flush: "read" },
  { readBytes: 64 * KIB, writeBytes: 64 * KIB, writesInFlight: UNLIMITED_WRITES, cork: false, flush: "turn" },
  { readBytes: 64 * KIB, writeBytes: 64 * KIB, writesInFlight: 1, cork: false, flush: "read" },
  { readBytes: 4 * KIB, writeBytes: 4 * KIB, writesInFlight: UNLIMITED_WRITES, cork: true, flush: "turn" },
];

/**
 * The winners of searches over all combinations of four read sizes, four write sizes, 1, 2 or any number in flight,
 * corked or not.
 */
const LARGE_PLANS: readonly RawPlan[] = [
  { readBytes: 128 * KIB, writeBytes: 256 * KIB, writesInFlight: UNLIMITED_WRITES, cork: true, flush: "read" },
  { readBytes: 128 * KIB, writeBytes: 256 * KIB, writesInFlight: UNLIMITED_WRITES, cork: true, flush: "turn" },
  { readBytes: 128 * KIB, writeBytes: 64 * KIB, writesInFlight: UNLIMITED_WRITES, cork: true, flush: "read" },
  { readBytes: 128 * KIB, writeBytes: 1 * MIB, writesInFlight: UNLIMITED_WRITES, cork: true, flush: "read" },
  { readBytes: 64 * KIB, writeBytes: 256 * KIB, writesInFlight: UNLIMITED_WRITES, cork: true, flush: "read" },
  { readBytes: 128 * KIB, writeBytes: 512 * KIB, writesInFlight: 2, cork: false, flush: "read" },
  { readBytes: 64 * KIB, writeBytes: 1 * MIB, writesInFlight: 1, cork: false, flush: "read" },
  { readBytes: 64 * KIB, writeBytes: 1 * MIB, writesInFlight: 2, cork: false, flush: "read" },
  { readBytes: 256 * KIB, writeBytes: 1 * MIB, writesInFlight: UNLIMITED_WRITES, cork: false, flush: "read" },
  { readBytes: 256 * KIB, writeBytes: 4 * MIB, writesInFlight: 1, cork: false, flush: "turn" },
  { readBytes: 256 * KIB, writeBytes: 64 * KIB, writesInFlight: UNLIMITED_WRITES, cork: true, flush: "read" },
  { readBytes: 256 * KIB, writeBytes: 256 * KIB, writesInFlight: UNLIMITED_WRITES, cork: true, flush: "read" },
  { readBytes: 1 * MIB, writeBytes: 1 * MIB, writesInFlight: UNLIMITED_WRITES, cork: false, flush: "read" },
  { readBytes: 1 * MIB, writeBytes: 64 * KIB, writesInFlight: UNLIMITED_WRITES, cork: true, flush: "read" },
];

/**
 * The bytes of a case's values on each connection, without keys: what any protocol has to move at least. A push and a
 * pull in turn are one exchange of values for values.
 */
export function rawFlowOf(benchCase: BenchCase): { readonly flow: RawFlow; readonly requestsPerExchange: number } {
  const { direction, nodesPerRole, window } = benchCase;
  const messageBytes = Math.max(valueBytes(benchCase) / nodesPerRole, EMPTY_MESSAGE_BYTES);
  const requestBytes = direction === "pull" ? EMPTY_MESSAGE_BYTES : messageBytes;
  const replyBytes = direction === "push" ? EMPTY_MESSAGE_BYTES : messageBytes;
  const requestsPerExchange = direction === "mix" ? 2 : 1;
  return { flow: { requestBytes, replyBytes, window: window / requestsPerExchange }, requestsPerExchange };
}

/**
 * A knock-out: every heat measures each plan once more, and the better half by total rate goes on, until one is left or
 * time is up.
 */
export async function findCeiling(cluster: RawCluster, flow: RawFlow, span: Span, deadline: number): Promise<RawPlan> {
  const plans = Math.max(flow.requestBytes, flow.replyBytes) <= EMPTY_MESSAGE_BYTES ? SMALL_PLANS : LARGE_PLANS;
  let left = plans.map((plan) => ({ plan, total: 0 }));
  do {
    for (const candidate of left) candidate.total += (await cluster.measure(flow, candidate.plan, span)).reqPerSec;
    left = left.sort((a, b) => b.total - a.total).slice(0, left.length >> 1);
  } while (left.length > 1 && performance.now() < deadline);
  const [winner] = left;
  assert(winner !== undefined, "a knock-out has a winner");
  return winner.plan;
}
