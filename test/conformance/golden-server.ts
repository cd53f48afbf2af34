// golden-server — a server with fixed state and fixed answers, behind real channels and handlers: what it answers to
// the request vectors are the answer vectors.
//
//   application 1   the default handle, with keys 1 and 2^64 − 1 of two floats each
//   application 2   a handle that wants whole requests, and answers pulls with three floats, two for the first key and
//                   one for the second
//   function 1024   fails
//   golden, mixed   PS functions that give back what they get: a field of every kind, and an array before a string
//   row             one that answers with an array alone
//   told            a function of workers, answered as a worker does
//   wb/tensor/pull  one that is refused unless it names the epoch of the placement
//   relay           what a survey of a checkpoint is answered with

import { joinBytes } from "../../src/base/bytes.ts";
import { WeighbridgeError } from "../../src/base/errors.ts";
import { SILENT_LOG } from "../../src/base/log.ts";
import { VectorClock } from "../../src/consistency/vector-clock.ts";
import { checkpointSave } from "../../src/contracts/checkpoints.ts";
import { collectivePart } from "../../src/contracts/collective.ts";
import type { JsonContract } from "../../src/contracts/contract.ts";
import { ABORT, BARRIER, HEARTBEAT, LEAVE, PLACEMENT, PREPARE, REGISTER, ROSTER, STATUS } from "../../src/contracts/control.ts";
import { GATHER, RENDEZVOUS, RETIRE, UNITS } from "../../src/contracts/coordination.ts";
import { KV_CONTRACTS, simpleRequest } from "../../src/contracts/kv.ts";
import { type PsFunction, psFunction } from "../../src/contracts/ps-function.ts";
import { tensorPull } from "../../src/contracts/tensors.ts";
import { relayCall } from "../../src/contracts/tools.ts";
import { type WorkerFunction, workerFunction } from "../../src/contracts/worker-function.ts";
import { Arena } from "../../src/kernel/arena.ts";
import { SimdKernels } from "../../src/kernel/simd-kernels.ts";
import { AppRegistry, simpleHost } from "../../src/peer/app-registry.ts";
import { serveJson } from "../../src/peer/call-function.ts";
import { PartialRequests } from "../../src/peer/partial-requests.ts";
import { CheckpointService } from "../../src/server/checkpoint/checkpoint-service.ts";
import { PartsDeparture } from "../../src/server/copy/parts-departure.ts";
import { StoreHandle } from "../../src/server/kv/store-handle.ts";
import { answerWhole, type WholeKvRequest, WholeRequests } from "../../src/server/kv/whole-requests.ts";
import { Ownership } from "../../src/server/ownership.ts";
import { Parameters } from "../../src/server/parameters/parameters.ts";
import { WorkerGroups } from "../../src/server/parameters/worker-groups.ts";
import { PlacementPrepare } from "../../src/server/placement-prepare.ts";
import { ArenaReadBuffers, serverFunctions } from "../../src/server/server.ts";
import { serve as serveFunction } from "../../src/server/server-context.ts";
import { WorkerCalls } from "../../src/server/worker-calls.ts";
import { SumStore } from "../../src/store/sums/sum-store.ts";
import { putFloats, putKeys } from "../../src/testing/arena-lists.ts";
import { simdSumHost } from "../../src/testing/store-stage.ts";
import type { PlacementView, RosterView } from "../../src/wire/roster.ts";
import { RecordedExchange } from "./recorded-exchange.ts";

export const KEYS: readonly bigint[] = [1n, 2n ** 64n - 1n];
export const VALUES: readonly number[] = [1, -2, 0.5, 65_536];

export const PLACE = { job: "job/1", node: 9, incarnation: 1 } as const;

const PLACEMENT_VIEW: PlacementView = { epoch: 2, policy: "ring", servers: [0, 1], moved: [17, 1] };

export const ROSTER_VIEW: RosterView = {
  version: 1,
  nodes: [
    {
      node: 9,
      role: "worker",
      rank: 0,
      address: "",
      incarnation: 1,
      state: "alive",
      label: "host-a:17",
      packageVersion: "0.1.0",
      token: "t-1",
    },
    {
      ...{ node: 8, role: "server", rank: 0, address: "tcp://server-0.example:8001", incarnation: 1, state: "alive", label: "host-b:23" },
      ...{ packageVersion: "0.1.0", token: "t-0" },
    },
  ],
  placement: { epoch: 1, policy: "ring", servers: [0] },
};

const goldenFields = {
  a: "u32",
  b: "i32",
  c: "f32",
  d: "f64",
  e: "u64",
  f: "bool",
  g: "string",
  h: "u8[]",
  i: "f32[]",
  j: "u64[]",
} as const;
/** Gives back what it gets. */
export const goldenFunction: PsFunction<typeof goldenFields, typeof goldenFields> = psFunction({
  name: "golden",
  request: goldenFields,
  response: goldenFields,
  handler: (_context, request) => request,
});

const mixedFields = { a: "u8[]", b: "string", c: "u32" } as const;
/** The same, of an array before a string. */
export const mixedFunction: PsFunction<typeof mixedFields, typeof mixedFields> = psFunction({
  name: "mixed",
  request: mixedFields,
  response: mixedFields,
  handler: (_context, request) => request,
});

const rowRequest = { count: "u32" } as const;
const rowResponse = { values: "f32[]" } as const;
/** So many floats: 0, 1, 2 … */
export const rowFunction: PsFunction<typeof rowRequest, typeof rowResponse> = psFunction({
  name: "row",
  request: rowRequest,
  response: rowResponse,
  reads: true,
  handler: (_context, { count }) => ({ values: Float32Array.from({ length: count }, (_, i) => i) }),
});

const toldRequest = { keys: "u64[]", values: "f32[]" } as const;
const toldResponse = { rowCount: "u32" } as const;
/** Of workers: says how many rows it was told of. */
export const toldFunction: WorkerFunction<typeof toldRequest, typeof toldResponse> = workerFunction({
  name: "told",
  request: toldRequest,
  response: toldResponse,
});

/** An exchange whose server side serves everything. */
export function goldenServer(): RecordedExchange {
  const arena = new Arena({ bytesMax: 2 ** 24 });
  const exchange = new RecordedExchange(new ArenaReadBuffers(arena).take());
  const { peer } = exchange.server;
  const rules = { recovery: false, heartbeatIntervalMs: 1000, heartbeatTimeoutMs: 5000 };
  const serve = <Q, R>(fn: JsonContract<Q, R>, reply: R): void => peer.serve(serveJson(fn, () => reply));
  serve(REGISTER, { ...PLACE, ...rules, roster: ROSTER_VIEW });
  serve(HEARTBEAT, {});
  serve(BARRIER, { round: 1 });
  serve(LEAVE, {});
  serve(STATUS, {
    job: "job",
    phase: "running",
    serverCount: 1,
    workerCount: 1,
    uptimeMs: 61_000,
    packageVersion: "0.1.0",
    nodes: ROSTER_VIEW.nodes.map((entry) => ({ ...entry, token: undefined, heartbeatAgeMs: 250, linked: true })),
    waiting: [{ role: "worker", rank: 0, address: "", label: "host-c:5", packageVersion: "0.1.0" }],
  });
  serve(GATHER, { generation: 3, members: [{ node: 9, incarnation: 1 }], roster: { ...ROSTER_VIEW, version: 4, endedGeneration: 2 } });
  serve(RENDEZVOUS, {
    values: [
      { rank: 0, value: "412" },
      { rank: 1, value: "409" },
    ],
  });
  peer.serveFrames(collectivePart, { handle: (channel, header) => channel.acknowledge(header) });
  serve(PLACEMENT, { placement: PLACEMENT_VIEW });
  serve(UNITS, { isOver: false, units: [5, 7], lost: [], repeatedCount: 2, inherited: { version: 1, done: [0, 2], suspect: [2, 3] } });
  serve(PREPARE, {});
  serve(RETIRE, { openCount: 1 });
  serve(ROSTER, {});
  serve(ABORT, {});
  const simpleApps = new AppRegistry({ clock: exchange.clock });
  const pong = simpleHost(exchange.clock, async () => new TextEncoder().encode("pong"));
  simpleApps.add(3, pong);
  peer.serveFrames(simpleRequest, simpleApps);
  peer.serveFrames(
    { id: 1024 },
    {
      handle: () => {
        throw new WeighbridgeError("UNKNOWN_FUNCTION", "there is no function 1024 on this node");
      },
    },
  );
  const kernels = new SimdKernels(arena);
  const parameters = new Parameters({ arena, kernels, clock: exchange.clock, workerCount: 1, secret: 1n });
  const { clock } = exchange;
  const ownership = new Ownership(arena);
  ownership.adopt(PLACEMENT_VIEW, 0);
  const checkpoints = new CheckpointService({
    parameters,
    vectorClock: new VectorClock(),
    ownership,
    placement: new PlacementPrepare(ownership, clock),
    files: undefined,
    log: SILENT_LOG,
    clock,
  });
  const groups = new WorkerGroups(clock, 1);
  const functions = serverFunctions(
    {
      arena,
      kernels,
      parameters,
      groups,
      checkpoints,
      ownership,
      departure: new PartsDeparture({ ownership, parameters: () => parameters, groups: () => groups, clock }),
      workers: new WorkerCalls(),
    },
    clock,
  );
  functions.add(goldenFunction);
  functions.add(mixedFunction);
  functions.add(rowFunction);
  functions.add(serveFunction(toldFunction, { handler: (_context, { keys }) => ({ rowCount: keys.length }) }));
  functions.add(serveFunction(tensorPull, { handler: () => ({ values: Float32Array.of(1) }) }));
  const surveyed = checkpointSave.survey.response.encode({ clockMin: 12, names: ["w"], gone: undefined, waits: "" });
  functions.add(serveFunction(relayCall, { handler: () => ({ response: joinBytes(surveyed.chunks) }) }));
  peer.hostFunctions(functions);
  const apps = new AppRegistry({ clock: exchange.clock });
  apps.add(1, storeHandle(arena));
  const answer = (request: WholeKvRequest): void => answerWhole(request, Float32Array.of(1, 2, 3), Int32Array.of(2, 1));
  apps.add(2, new WholeRequests(new PartialRequests({ clock }), answer));
  for (const fn of KV_CONTRACTS) peer.serveFrames(fn, apps);
  return exchange;
}

function storeHandle(arena: Arena): StoreHandle {
  const store = new SumStore(simdSumHost(arena));
  store.push({ keys: putKeys(arena, KEYS), keyCount: 2, width: 2, values: putFloats(arena, VALUES) });
  return new StoreHandle(arena, store);
}
