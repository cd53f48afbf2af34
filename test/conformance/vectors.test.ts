// The golden vectors, both ways: the code encodes what lies in spec/vectors/, byte for byte, and reads from those bytes
// what they mean.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import type { JsonContract } from "../../src/contracts/contract.ts";
import * as control from "../../src/contracts/control.ts";
import * as coordination from "../../src/contracts/coordination.ts";
import { decodeAssignment, decodeGradients, decodeKeyRequest, decodeRows } from "../../src/faces/training/row-messages.ts";
import { failureShape } from "../../src/wire/failure.ts";
import { encodeHeader, FrameHeader, HEADER_BYTES, Kind, paddedBytes } from "../../src/wire/frame.ts";
import { decodeHeader, FrameReader, READ_BUFFER_BYTES } from "../../src/wire/frame-reader.ts";
import { FunctionId } from "../../src/wire/function-id.ts";
import { helloShape } from "../../src/wire/hello.ts";
import { type Check, decodeJson, encodeJson } from "../../src/wire/json-body.ts";
import { answersTo, makeVectors } from "./golden-vectors.ts";
import { describeVector, fromHex, payloadsOf, toHex, type VectorFile, type VectorFrame } from "./vector-file.ts";

const DIRECTORY = join(import.meta.dirname, "..", "..", "spec", "vectors");
const FIX = "the wire has changed: if that is meant, run `node scripts/make-vectors.ts` and write docs/decisions";

const files: readonly VectorFile[] = readdirSync(DIRECTORY)
  .filter((name) => name.endsWith(".json"))
  .map((name) => name.replace(/\.json$/, ""))
  .sort()
  .map((name) => JSON.parse(readFileSync(join(DIRECTORY, `${name}.json`), "utf8")));
const bytesOf = ({ frames }: VectorFile): Uint8Array[] => frames.map(({ hex }) => fromHex(hex));

test("there is a vector for every message, and the code makes each of them byte for byte", async () => {
  const made = new Map((await makeVectors()).map((vector) => [vector.name, vector]));
  assert.deepEqual(
    [...made.keys()].sort(),
    files.map(({ name }) => name),
    FIX,
  );
  for (const file of files) {
    const frames = made.get(file.name)?.frames ?? [];
    assert.deepEqual(
      frames.map(toHex),
      file.frames.map(({ hex }) => hex),
      `${file.name}: ${FIX}`,
    );
  }
});

test("every kind of frame and every function is among them", () => {
  const headers = files.flatMap(({ frames }) => frames.map(({ header }) => header));
  for (const kind of Object.keys(Kind))
    assert.ok(
      headers.some((header) => header.kind === kind),
      kind,
    );
  for (const name of Object.keys(FunctionId)) {
    for (const kind of ["REQUEST", "REPLY"]) {
      assert.ok(
        headers.some((header) => header.function === name && header.kind === kind),
        `${kind} of ${name}`,
      );
    }
  }
});

test("a failure is the one that its vector is about, and that of another epoch carries the placement", () => {
  const told = files.flatMap(({ name, frames: [first] }) => {
    if (first?.header.kind !== "FAILURE") return [];
    const [body = new Uint8Array()] = payloadsOf(fromHex(first.hex), first.header);
    return [[name, decodeJson(failureShape, name, body)] as const];
  });
  assert.deepEqual(
    told.map(([name, { code }]) => [name, code]),
    [
      ["failure", "UNKNOWN_FUNCTION"],
      ["hello-refused", "FENCED"],
      ["wrong-epoch", "WRONG_EPOCH"],
    ],
  );
  const { retryable, detail } = new Map(told).get("wrong-epoch")!;
  assert.deepEqual([retryable, detail], [true, { epoch: 2, policy: "ring", servers: [0, 1], moved: [17, 1] }]);
});

test("messages of an exchange of rows are read from their golden bytes", () => {
  const bodyOf = (name: string): Uint8Array => {
    const [frame] = files.find((file) => file.name === `row-exchange-${name}`)?.frames ?? [];
    assert.ok(frame !== undefined, name);
    return payloadsOf(fromHex(frame.hex), frame.header)[0]!.slice();
  };
  assert.deepEqual(decodeKeyRequest(bodyOf("ask")), { isKnown: true, keys: Uint32Array.of(1, 0, 0xffff_ffff, 0xffff_ffff) });
  assert.deepEqual(decodeRows(bodyOf("give"), 2), Float32Array.of(1, -2, 0.5, 65_536));
  const gradients = { clock: 3, scale: 0.5, isPush: true, positions: Uint32Array.of(1), values: Float32Array.of(1, -2) };
  assert.deepEqual(decodeGradients(bodyOf("gradients"), 2), gradients);
  assert.deepEqual(decodeAssignment(bodyOf("deal")), { largest: 7 });
});

test("the meaning that is written beside the bytes is what the tables of the protocol say", () => {
  for (const file of files) assert.deepEqual(file, describeVector({ ...file, frames: bytesOf(file) }));
});

test("headers are read as they were written, and written as they were read", () => {
  for (const bytes of files.flatMap(bytesOf)) {
    const header = new FrameHeader();
    decodeHeader(new Uint32Array(bytes.slice(0, HEADER_BYTES).buffer), 0, header);
    const again = new Uint32Array(HEADER_BYTES / 4);
    encodeHeader(header, again, 0);
    assert.equal(toHex(new Uint8Array(again.buffer)), toHex(bytes.subarray(0, HEADER_BYTES)));
  }
});

test("what decodeHeader reads is what the vector says", () => {
  for (const { frames } of files) {
    for (const { header: expected, hex } of frames) {
      const header = new FrameHeader();
      decodeHeader(new Uint32Array(fromHex(hex).slice(0, HEADER_BYTES).buffer), 0, header);
      const { magic: _, version: __, kind, function: functionName, ...rest } = expected;
      assert.equal(header.kind, Kind[kind as keyof typeof Kind]);
      const functionId = FunctionId[functionName as keyof typeof FunctionId] ?? Number(functionName);
      assert.equal(header.functionId, functionId);
      for (const [name, value] of Object.entries(rest)) assert.equal(header[name as keyof FrameHeader], value, name);
    }
  }
});

test("payloads are padded with zeros to 8 bytes", () => {
  for (const { header, hex } of files.flatMap(({ frames }) => frames)) {
    const bytes = fromHex(hex);
    const stride = paddedBytes(header.payloadBytes);
    assert.equal(bytes.length, HEADER_BYTES + stride * (1 + (header.more ?? 0)));
    for (let at = HEADER_BYTES; at < bytes.length; at += stride)
      assert.ok(bytes.subarray(at + header.payloadBytes, at + stride).every((byte) => byte === 0));
  }
});

test("all vectors in one stream, cut anywhere, are read as the frames they are", () => {
  const stream = files.flatMap(bytesOf).flatMap((bytes) => [...bytes]);
  for (const step of [1, 7, 64, 1000]) {
    const read: string[] = [];
    const reader = new FrameReader(
      {
        destination: () => undefined,
        frame: (header, bytes, at) => read.push(`${header.kind} ${toHex(bytes.subarray(at, at + header.payloadBytes))}`),
      },
      new Uint8Array(READ_BUFFER_BYTES),
    );
    for (let at = 0; at < stream.length; at += step) {
      const part = stream.slice(at, at + step);
      reader.view().set(part);
      reader.received(part.length);
    }
    const expected = files.flatMap(({ frames }) =>
      frames.flatMap(({ header, hex }) =>
        payloadsOf(fromHex(hex), header).map((payload) => `${Kind[header.kind as keyof typeof Kind]} ${toHex(payload)}`),
      ),
    );
    assert.deepEqual(read, expected, `in steps of ${step}`);
  }
});

/** How the code reads the JSON of this frame; undefined when it has none. */
function shapeOf({ header }: VectorFrame): Check<unknown> | undefined {
  if (header.kind === "HELLO") return helloShape;
  if (header.kind === "FAILURE") return failureShape;
  const contracts = { ...control, ...coordination } as Readonly<Record<string, JsonContract<unknown, unknown>>>;
  const contract = contracts[String(header.function)];
  if (contract === undefined) return undefined;
  return (value) => {
    const body = encodeJson(value);
    return (header.kind === "REQUEST" ? contract.request : contract.response).decode(body, 0, body.length).body;
  };
}

test("the JSON of each is read as it is written, and fields that a newer peer may add are ignored", () => {
  for (const frame of files.flatMap(({ frames }) => frames)) {
    const shape = shapeOf(frame);
    const { json } = frame.payload;
    if (shape === undefined || json === undefined) continue;
    const body = fromHex(frame.hex).subarray(HEADER_BYTES, HEADER_BYTES + Number(frame.header.payloadBytes));
    assert.deepEqual(withoutUndefined(decodeJson(shape, "a vector", body)), json);
    assert.deepEqual(withoutUndefined(shape({ ...(json as object), fromTheFuture: [1, 2, 3] }, "a vector")), json);
  }
});

test("a server that is given a request vector answers with the vector that answers it", async () => {
  const replays = files.filter(({ name, answers }) => answers !== undefined && name !== "hello-refused");
  assert.ok(replays.length > 10);
  for (const file of replays) {
    const request = files.find(({ name }) => name === file.answers);
    assert.ok(request !== undefined, file.name);
    const answers = await answersTo(bytesOf(request));
    assert.deepEqual(
      answers.map(toHex),
      file.frames.map(({ hex }) => hex),
      file.name,
    );
  }
});

function withoutUndefined(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value));
}
