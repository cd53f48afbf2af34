// golden-vectors — one vector for each message of the wire. Requests are made by the real encoders from fixed inputs;
// answers are what the golden server gives to those bytes. scripts/make-vectors.ts writes them to spec/vectors/,
// vectors.test.ts holds the code to what lies there.

import { joinBytes } from "../../src/base/bytes.ts";
import { WeighbridgeError } from "../../src/base/errors.ts";
import { pulseFrames } from "../../src/cluster/pulse.ts";
import { checkpointSave } from "../../src/contracts/checkpoints.ts";
import type { Contract, JsonContract } from "../../src/contracts/contract.ts";
import { ABORT, BARRIER, HEARTBEAT, LEAVE, PLACEMENT, PREPARE, REGISTER, ROSTER, STATUS } from "../../src/contracts/control.ts";
import { GATHER, RENDEZVOUS, RETIRE, UNITS } from "../../src/contracts/coordination.ts";
import { simpleRequest } from "../../src/contracts/kv.ts";
import { tensorPull } from "../../src/contracts/tensors.ts";
import { relayCall } from "../../src/contracts/tools.ts";
import { assignmentMessage, encodeKeyRequest, gradientsMessage, rowsMessage } from "../../src/faces/training/row-messages.ts";
import { elementTypeOf } from "../../src/kernel/elements.ts";
import { sliceByRange } from "../../src/keys/key-list.ts";
import { callJson } from "../../src/peer/call-function.ts";
import { PeerMetrics } from "../../src/peer/channel-host.ts";
import { Connection } from "../../src/peer/connection.ts";
import { functionCalls } from "../../src/peer/function-call.ts";
import { PlainReadBuffers } from "../../src/peer/request-assembly.ts";
import { SimClock } from "../../src/testing/sim-clock.ts";
import { CollectiveKind } from "../../src/wire/collective-frame.ts";
import { Kind } from "../../src/wire/frame.ts";
import { FunctionId } from "../../src/wire/function-id.ts";
import type { Fields, FieldValues } from "../../src/wire/function-schema.ts";
import { READS_RUNS } from "../../src/wire/hello.ts";
import { encodeJson } from "../../src/wire/json-body.ts";
import { KvFlag, type Values } from "../../src/wire/kv-message.ts";
import type { PartLabel } from "../../src/worker/collective/operation.ts";
import { PartCall } from "../../src/worker/collective/part-call.ts";
import type { KvArrays, KvFunctionId } from "../../src/worker/kv-arrays.ts";
import { FloatWindow } from "../../src/worker/kv-landing.ts";
import { cutPart, type KvCall, KvRequest } from "../../src/worker/kv-request.ts";
import { frameBytes, type HeaderFields, kvPayload } from "../hostile/raw-frame.ts";
import {
  goldenFunction,
  goldenServer,
  KEYS,
  mixedFunction,
  PLACE,
  ROSTER_VIEW,
  rowFunction,
  toldFunction,
  VALUES,
} from "./golden-server.ts";
import { RecordedExchange, RecordingLink } from "./recorded-exchange.ts";

export type GoldenVector = {
  readonly name: string;
  readonly about: string;
  /** The vector that this one answers. */
  readonly answers?: string;
  /** Of a call of a function: its fields are read by it. */
  readonly signature?: string;
  /** How many lengths end an answer: it does not tell by itself. */
  readonly lensCount?: number;
  readonly frames: readonly Uint8Array[];
};

export async function makeVectors(): Promise<GoldenVector[]> {
  return [
    ...helloVectors(),
    ...(await controlVectors()),
    ...(await conversationVectors()),
    ...(await simpleVectors()),
    ...(await kvVectors()),
    ...(await functionVectors()),
    ...(await collectiveVectors()),
  ];
}

/** The request, and what the golden server answers to it. */
async function answered(request: GoldenVector, name: string, about: string, lensCount?: number): Promise<GoldenVector[]> {
  const frames = await answersTo(request.frames);
  return [request, { name, about, answers: request.name, ...(lensCount === undefined ? {} : { lensCount }), frames }];
}

export async function answersTo(frames: readonly Uint8Array[]): Promise<Uint8Array[]> {
  const { server, clock } = goldenServer();
  await clock.run();
  server.take(joinBytes(frames));
  await clock.run();
  return server.link.takeFrames();
}

function helloVectors(): GoldenVector[] {
  const link = new RecordingLink();
  const connection = new Connection(
    {
      clock: new SimClock(),
      metrics: new PeerMetrics(),
      readBuffers: new PlainReadBuffers(),
      helloTimeoutMs: 5000,
      packageVersion: "",
      helloCame: () => {
        throw new WeighbridgeError("FENCED", "worker 0 was replaced by a newer one");
      },
      refused: () => {},
      ended: () => {},
    },
    link,
  );
  connection.sendHello({ job: "job", kind: "worker", node: 0, incarnation: 0, expects: 1 });
  const first = link.takeFrames();
  const said = { packageVersion: "0.1.0", capabilities: [READS_RUNS] };
  connection.sendHello({ ...PLACE, kind: "worker", expects: 7, ...said, token: "t-1", knows: 3 });
  const second = link.takeFrames();
  const bytes = joinBytes(second);
  connection.reader.view().set(bytes);
  connection.reader.received(bytes.length);
  return [
    { name: "hello-newcomer", about: "the first frame of a node that has no slot yet", frames: first },
    {
      name: "hello-node",
      about:
        "the first frame of worker 0 in its first incarnation, which expects request 7 next, reads runs, and has talked with the receiver's third incarnation",
      frames: second,
    },
    {
      name: "hello-pulse",
      about: "the first frame of the pulse of worker 0, whose loop is busy",
      frames: [pulseFrames({ ...PLACE, token: "t-1" }).hello],
    },
    {
      name: "hello-refused",
      about: "a failure in place of the hello; the link closes after it",
      answers: "hello-node",
      frames: link.takeFrames(),
    },
  ];
}

async function controlVectors(): Promise<GoldenVector[]> {
  const fresh = {
    role: "worker",
    rank: undefined,
    address: "",
    serverCount: 1,
    workerCount: 1,
    label: "host-a:17",
    token: "t-1",
    packageVersion: "0.1.0",
  } as const;
  const epoch = { name: "train", epoch: 1, batchCount: 100, partCount: 2, assignment: "free" } as const;
  const units = {
    open: [{ ...epoch, done: [0, 4], held: [4, 5], suspect: [8, 9], repeatedCount: 1 }],
    over: [{ name: "train", epochs: [0, 1] }],
  };
  const gathered = { generation: 3, members: [{ node: 9, incarnation: 1 }] };
  const rendezvous = [{ name: "train.epoch", generation: 2, values: [{ rank: 0, value: "300" }] }];
  const resume = {
    ...PLACE,
    roster: ROSTER_VIEW,
    passed: [{ group: 7, customer: 0, round: 1 }],
    units,
    gathered,
    rendezvous,
    catalogue: { highest: 12 },
  };
  const aborted = { code: "DEADLINE", message: "the cluster was not complete after 60000 ms" };
  return [
    ...(await answered(
      await control("register-request", "a worker that asks for any rank", REGISTER, { ...fresh, resume: undefined }),
      "register-reply",
      "its slot and everybody else's, once the cluster is complete",
    )),
    await control("register-resume-request", "a worker that tells a restarted scheduler what it knows", REGISTER, { ...fresh, resume }),
    await control("register-failure-request", "a server that cannot listen tells that it does not come", REGISTER, {
      ...{ ...fresh, role: "server", rank: 1, token: "t-2", resume: undefined },
      failure: { code: "PORT_IN_USE", message: "cannot listen on tcp://server.example:7000: it is taken" },
    }),
    ...(await answered(await control("heartbeat-request", "a node lives", HEARTBEAT, {}), "heartbeat-reply", "the scheduler heard it")),
    await control("heartbeat-silent-request", "a node lives, and asks whether two that are silent are busy", HEARTBEAT, {
      silent: [8, 11],
    }),
    await control("heartbeat-pulse-request", "a pulse says that the loop of its node has been busy for 9 s", HEARTBEAT, {
      loopBusyMs: 9000,
    }),
    ...(await answered(
      await control("barrier-request", "a node stands at the first barrier of everybody", BARRIER, { group: 7, customer: 0, round: 1 }),
      "barrier-reply",
      "everybody does",
    )),
    await control("barrier-last-request", "a node that is done stands at the barrier of everybody, whoever dies", BARRIER, {
      ...{ group: 7, customer: 0, round: 2, outlivesDeaths: true },
    }),
    ...(await answered(await control("leave-request", "a node is done", LEAVE, {}), "leave-reply", "it no longer counts")),
    await control("leave-failure-request", "a server that has its slot cannot begin", LEAVE, {
      failure: { code: "CHECKPOINT_TORN", message: "shard-0.safetensors is too short" },
    }),
    await control("leave-unless-needed-request", "a copy of a server rank is stopped, and asks whether it may go", LEAVE, {
      unlessNeeded: true,
    }),
    await control("leave-unclosed-request", "the process of a worker ends well, and has not closed its session", LEAVE, { unclosed: 0 }),
    ...(await answered(
      await control("status-request", "who is there?", STATUS, {}),
      "status-reply",
      "a running cluster, and one node too many",
    )),
    ...(await answered(
      await control("placement-request", "which server owns which part?", PLACEMENT, {}),
      "placement-reply",
      "two servers on a ring, but for part 17, which was moved to server 1",
    )),
    ...(await answered(
      await control("units-request", "a worker has done four units, holds one, and asks for two more", UNITS, {
        ...epoch,
        ...{ done: [0, 4], held: [4, 5], unused: [], want: 2, waitMs: 20, inherited: 0, leaves: false },
      }),
      "units-reply",
      "it is lent two; a worker that had done two and held one is dead",
    )),
    ...(await answered(
      await control("gather-request", "a worker wants to be in the generation after 2", GATHER, {
        step: "enter",
        address: "tcp://server-1.example:8002",
        generation: 2,
      }),
      "gather-reply",
      "it is alone in generation 3",
    )),
    ...(await answered(
      await control("rendezvous-request", "a worker is at the end of its fourth epoch, with clock 412", RENDEZVOUS, {
        ...{ name: "train.epoch", generation: 3, value: "412", waitMs: 1000 },
      }),
      "rendezvous-reply",
      "so is the other one, with clock 409",
    )),
    ...(await answered(
      await control("roster-request", "the scheduler tells a node of a change", ROSTER, { ...ROSTER_VIEW, version: 2 }),
      "roster-reply",
      "the node knows it",
    )),
    ...(await answered(
      await control("prepare-request", "the scheduler prepares a worker for the placement of epoch 2", PREPARE, {
        epoch: 2,
        holdMs: 30_000,
      }),
      "prepare-reply",
      "every clock that the worker has ended is known to all servers",
    )),
    ...(await answered(
      await control("retire-request", "a server that has no parts any more tells a worker so", RETIRE, {
        placement: { epoch: 3, policy: "ring", servers: [0] },
      }),
      "retire-reply",
      "the worker knows it, and has one request open there",
    )),
    ...(await answered(await control("abort-request", "the scheduler ends the job", ABORT, aborted), "abort-reply", "the node knows it")),
  ];
}

async function control<Q, R>(name: string, about: string, message: JsonContract<Q, R>, body: Q): Promise<GoldenVector> {
  const { requester, clock } = new RecordedExchange();
  callJson(requester.channel, message, body, clock).catch(() => {}); // nobody answers
  await clock.run();
  return { name, about, frames: requester.link.takeFrames() };
}

async function conversationVectors(): Promise<GoldenVector[]> {
  const ahead = frameBytes(Kind.REQUEST, { functionId: FunctionId.HEARTBEAT, request: 3, settled: 1 });
  const fields = { functionId: 1024, request: 1, settled: 1, app: 5, customer: 6, command: -7, priority: 2 };
  const failing = { name: "unknown-function", about: "a function that does not exist", frames: [frameBytes(Kind.REQUEST, fields)] };
  return [
    { name: "notice", about: "request 3 came, but request 1 is still to come", frames: await answersTo([ahead]) },
    ...(await answered(failing, "failure", "it cannot be done")),
  ];
}

async function simpleVectors(): Promise<GoldenVector[]> {
  const { requester, clock } = new RecordedExchange();
  const ping = { body: new TextEncoder().encode("ping!") };
  const address = { app: 3, customer: 2, command: 42 };
  for (const call of functionCalls({
    ...{ fn: simpleRequest, request: ping, number: 1, priority: 0, scope: 0, address },
    answered: () => {},
    failed: () => {},
  }))
    requester.channel.send(call);
  await clock.run();
  const request = {
    name: "simple-request",
    about: "head 42 with a body of five bytes, to application 3",
    frames: requester.link.takeFrames(),
  };
  return await answered(request, "simple-reply", "its answer");
}

type KvInput = {
  readonly app?: number;
  readonly keys: readonly bigint[];
  readonly sent?: Values;
  readonly received?: Values;
  readonly lens?: readonly number[];
  readonly wantsLens?: boolean;
  readonly priority?: number;
  readonly epoch?: number;
  readonly isAppCut?: boolean;
};

/** The frames of a kv request, cut as a worker cuts them. */
async function kvFrames(functionId: KvFunctionId, input: KvInput): Promise<Uint8Array[]> {
  const { requester, clock } = new RecordedExchange();
  for (const call of kvCalls(functionId, input)) requester.channel.send(call);
  await clock.run();
  return requester.link.takeFrames();
}

/** Three requests that leave together. */
async function runVector(name: string, about: string, functionId: KvFunctionId, inputs: readonly KvInput[]): Promise<GoldenVector> {
  const { requester, clock } = new RecordedExchange();
  for (const [i, input] of inputs.entries()) for (const call of kvCalls(functionId, input, 12 + i)) requester.channel.send(call);
  await clock.run();
  return { name, about, frames: requester.link.takeFrames() };
}

function kvCalls(functionId: KvFunctionId, input: KvInput, timestamp = 12): KvCall[] {
  const { app = 1, keys, sent, received, lens, wantsLens = false, priority = 0, isAppCut = false, epoch = isAppCut ? 0 : 1 } = input;
  const values = (sent ?? received) as Values;
  const arrays: KvArrays = {
    keys: BigUint64Array.from(keys),
    sent,
    received: wantsLens ? undefined : received,
    lens: lens === undefined ? undefined : Int32Array.from(lens),
    dtype: elementTypeOf(values),
    width: lens === undefined && !wantsLens ? values.length / keys.length : 0,
    elementBytes: values.BYTES_PER_ELEMENT,
  };
  const owner = { app, customer: 2, window: new FloatWindow(), incarnations: [], ended: () => {} };
  const special = { slicer: isAppCut ? sliceByRange : undefined, fill: wantsLens ? () => {} : undefined };
  const request = new KvRequest(owner, functionId, arrays, { cmd: -3, priority }, special);
  request.timestamp = timestamp;
  const calls = cutPart(request, { keyFrom: 0, keyTo: keys.length, valueFrom: 0, valueTo: wantsLens ? 0 : values.length }, epoch);
  request.open(calls.length);
  return calls;
}

async function kvVectors(): Promise<GoldenVector[]> {
  const { KV_PUSH, KV_PULL, KV_PUSH_PULL } = FunctionId;
  const sent = Float32Array.from(VALUES);
  const received = new Float32Array(4);
  const long = new Float32Array(131_074).fill(3, 131_072);
  const request = async (name: string, about: string, functionId: KvFunctionId, input: KvInput): Promise<GoldenVector> => {
    const frames = await kvFrames(functionId, input);
    // Of a value in pieces only the last: the others are half a megabyte each.
    return { name, about, frames: frames.slice(-1) };
  };
  const push = await request("kv-push", "two keys of two floats each", KV_PUSH, { keys: KEYS, sent });
  const pull = await request("kv-pull", "the values of two keys, two floats each", KV_PULL, { keys: KEYS, received });
  const wanting = { keys: KEYS, received, wantsLens: true };
  const pullLens = await request("kv-pull-lens", "the values of two keys, and how many each has", KV_PULL, wanting);
  const whole = await request("kv-pull-whole", "the same, of a handle that wants whole requests", KV_PULL, { ...wanting, app: 2 });
  const pushPull = await request("kv-push-pull", "adds to two keys and reads them", KV_PUSH_PULL, { keys: KEYS, sent, received });
  const one = Float32Array.of(1);
  const pushes = [7n, 9n, 7n].map((key) => ({ keys: [key], sent: one }));
  const pulls = [1n, 7n, 2n ** 64n - 1n].map((key) => ({ keys: [key], received: received.subarray(2) }));
  return [
    ...(await answered(
      await runVector("kv-push-run", "three pushes of one key and one float each, in one run", KV_PUSH, pushes),
      "kv-push-run-answer",
      "all three were applied",
    )),
    ...(await answered(
      await runVector("kv-pull-run", "three pulls of one key and two floats each, in one run", KV_PULL, pulls),
      "kv-pull-run-answer",
      "their values; nobody pushed the second key",
    )),
    ...(await answered(push, "kv-push-answer", "it was applied")),
    await request("kv-push-lens", "three keys of one, no and three floats", KV_PUSH, { keys: [1n, 2n, 3n], sent, lens: [1, 0, 3] }),
    await request("kv-push-app-cut", "one float, to a server that the application chose", KV_PUSH, {
      keys: [7n],
      sent: one,
      isAppCut: true,
    }),
    await request("kv-push-epoch", "one float, cut by the placement of epoch 5,000", KV_PUSH, { keys: [7n], sent: one, epoch: 5000 }),
    await request("kv-push-float64", "one double, at priority 5", KV_PUSH, { keys: [7n], sent: Float64Array.of(Math.PI), priority: 5 }),
    await request("kv-push-piece", "the second and last piece of one key with 131,074 floats", KV_PUSH, { keys: [7n], sent: long }),
    ...(await answered(pull, "kv-pull-answer", "the values")),
    await request("kv-pull-piece", "the second and last piece of one key with 131,074 floats", KV_PULL, { keys: [7n], received: long }),
    ...(await answered(pullLens, "kv-pull-lens-answer", "values, then lengths, in one frame", KEYS.length)),
    ...(await answered(whole, "kv-pull-whole-answer", "values in one frame, lengths in another", KEYS.length)),
    ...(await answered(pushPull, "kv-push-pull-answer", "the sums")),
    ...(await answered(partsVector(), "kv-push-parts-answer", "the first part is kept, with the last the request was handled")),
  ];
}

/** The frames of a call of a function, as a worker sends it to a server, or the server to a worker. */
async function functionFrames<Q extends Fields, R extends Fields>(
  fn: Contract<Q, R>,
  request: FieldValues<Q>,
  from: "worker" | "server" = "worker",
): Promise<Uint8Array[]> {
  const { requester, server, clock } = new RecordedExchange();
  const { channel, link } = from === "worker" ? requester : server;
  const calls = functionCalls({ fn, request, number: 7, priority: 2, scope: 0, answered: () => {}, failed: () => {} });
  for (const call of calls) channel.send(call);
  await clock.run();
  return link.takeFrames();
}

/** An update, a read and an update that leave in one turn. */
async function bundleVector(): Promise<GoldenVector> {
  const { requester, clock } = new RecordedExchange();
  const ends = { scope: 0, answered: () => {}, failed: () => {} };
  const told = { keys: BigUint64Array.from(KEYS), values: Float32Array.from(VALUES) };
  const calls = [
    ...functionCalls({ fn: rowFunction, request: { count: 2 }, number: 7, priority: 2, ...ends }),
    ...functionCalls({ fn: toldFunction, request: told, number: 8, priority: -1, ...ends }),
    ...functionCalls({ fn: rowFunction, request: { count: 3 }, number: 9, priority: 0, ...ends }),
    ...functionCalls({ fn: mixedFunction, request: { a: Uint8Array.of(1, 2, 3), b: "größe", c: 7 }, number: 10, priority: 2, ...ends }),
  ];
  for (const call of calls) requester.channel.send(call);
  await clock.run();
  return { name: "bundle", about: "a read, an update, a read and an update that leave together", frames: requester.link.takeFrames() };
}

async function functionVectors(): Promise<GoldenVector[]> {
  const values = {
    a: 4_294_967_295,
    b: -2,
    c: 0.5,
    d: Math.PI,
    e: 2n ** 64n - 1n,
    f: true,
    g: "größe",
    h: Uint8Array.of(1, 2, 3),
    i: Float32Array.of(1, -2, 0.5),
    j: BigUint64Array.from(KEYS),
  };
  const call = {
    name: "function-call",
    about: "an update with a field of every kind",
    signature: goldenFunction.signature,
    frames: await functionFrames(goldenFunction, values),
  };
  const mixed = {
    name: "function-mixed",
    about: "an array of three bytes, a string and a number",
    signature: mixedFunction.signature,
    frames: await functionFrames(mixedFunction, { a: Uint8Array.of(1, 2, 3), b: "größe", c: 7 }),
  };
  const outdated = {
    name: "function-no-epoch",
    about: "a pull that says by no placement how it was cut",
    signature: tensorPull.signature,
    frames: await functionFrames(tensorPull, { parameter: 1, block: 0, clock: 0, rows: new Uint32Array(0) }),
  };
  const row = {
    name: "function-row",
    about: "a read that is answered with one array",
    signature: rowFunction.signature,
    frames: await functionFrames(rowFunction, { count: 3 }),
  };
  const told = {
    name: "worker-call",
    about: "a server tells a worker of two rows, over the link that the worker opened: an update of the server's own sequence",
    signature: toldFunction.signature,
    frames: await functionFrames(toldFunction, { keys: BigUint64Array.from(KEYS), values: Float32Array.from(VALUES) }, "server"),
  };
  const { survey } = checkpointSave;
  const surveyed = { server: 0, caller: "", name: survey.name, signature: survey.signatureHash, request: new Uint8Array(0) };
  const relayed = {
    name: "relay-call",
    about: "the command line calls wb/checkpoint/survey of server 0, through the scheduler",
    signature: relayCall.signature,
    frames: await functionFrames(relayCall, surveyed),
  };
  return [
    ...(await answered(relayed, "relay-call-answer", "every worker has finished 12 clocks, and there is one parameter, w")),
    ...(await answered(call, "function-call-answer", "the same fields back")),
    ...(await answered(row, "function-row-answer", "the array's bytes alone")),
    ...(await answered(mixed, "function-mixed-answer", "the same fields back")),
    ...(await answered(await bundleVector(), "bundle-answer", "their four answers, which leave together")),
    ...(await answered(told, "worker-call-answer", "the worker has taken them")),
    ...(await answered(outdated, "wrong-epoch", "the placement that the server has is in the detail")),
  ];
}

/** Parts as a worker sends them. */
async function collectiveVectors(): Promise<GoldenVector[]> {
  const { requester, clock } = new RecordedExchange();
  const send = async (label: Partial<PartLabel> & { readonly kind: number }, payload: Uint8Array): Promise<Uint8Array[]> => {
    const whole = { generation: 3, sequence: 0, root: 0, length: 0, index: 0, ...label };
    requester.channel.send(new PartCall({ label: whole, payload, acknowledged: () => {}, failed: () => {} }));
    await clock.run();
    return requester.link.takeFrames();
  };
  const floats = new Uint8Array(Float32Array.of(1, -2, 0.5).buffer);
  const { ALL_REDUCE, EXCHANGE, BROADCAST, OVER } = CollectiveKind;
  const exchanged = async (name: string, about: string, bytes: Uint8Array): Promise<GoldenVector> => ({
    name: `row-exchange-${name}`,
    about: `${about}: the only part of an exchange of such messages`,
    frames: await send({ kind: EXCHANGE, sequence: 9, length: bytes.length }, bytes),
  });
  const part = await send({ kind: ALL_REDUCE, sequence: 7, length: 20_000, index: 2 }, floats);
  const sent = await send({ kind: BROADCAST, sequence: 8, root: 1, length: 3 }, floats);
  const over = await send({ kind: OVER }, encodeJson({ from: 9, code: "CLOSED", message: "worker 0 has closed its collective" }));
  return [
    ...(await answered(
      {
        name: "collective-part",
        about: "three floats, the third part of an all-reduce of 20,000: operation 7 of generation 3",
        frames: part,
      },
      "collective-part-answer",
      "it was taken",
    )),
    await exchanged(
      "ask",
      "a worker wants the rows of keys 1 and 2^64 - 1",
      encodeKeyRequest({ isKnown: true, keys: new Uint32Array(BigUint64Array.from(KEYS).buffer) }),
    ),
    await exchanged("give", "two rows of two floats", givenRows()),
    await exchanged("gradients", "at clock 3 the second of those rows has a gradient, to be scaled by a half", givenGradients()),
    await exchanged("deal", "what the workers agree on, in JSON", assignmentMessage({ largest: 7 })),
    { name: "collective-broadcast", about: "the only part of a broadcast of three floats from worker 1", frames: sent },
    { name: "collective-over", about: "the sender takes no part in operations from 9 on", frames: over },
  ];
}

function givenRows(): Uint8Array {
  const { bytes, rows } = rowsMessage(2, 2);
  rows.set(VALUES);
  return bytes;
}

function givenGradients(): Uint8Array {
  const { bytes, positions, values } = gradientsMessage({ clock: 3, scale: 0.5, isPush: true, rowCount: 1, width: 2 });
  positions.set([1]);
  values.set([1, -2]);
  return bytes;
}

/** A push in two frames. A worker would send so little in one, but any cut between keys is legal. */
function partsVector(): GoldenVector {
  const common: HeaderFields = {
    functionId: FunctionId.KV_PUSH,
    settled: 1,
    epoch: 1,
    app: 2,
    customer: 2,
    command: -3,
    arg0: 1,
    arg1: 2,
    arg3: 12,
  };
  const part = (i: number, flags: number): Uint8Array =>
    frameBytes(
      Kind.REQUEST,
      { ...common, request: i + 1, stamp: i + 1, flags },
      kvPayload(KEYS.slice(i, i + 1), VALUES.slice(2 * i, 2 * i + 2)),
    );
  return {
    name: "kv-push-parts",
    about: "two keys of two floats each, in two frames, to a handle that wants whole requests",
    frames: [part(0, KvFlag.FIRST), part(1, KvFlag.LAST)],
  };
}
