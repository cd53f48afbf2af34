// vectors — the golden bytes of functions by name: the request as a worker sends it, and the answer as a server gives
// it, from the examples of documented.ts. The values of the fields stand beside the bytes, so that a client can be
// tested both ways.

import { joinBytes } from "../../../src/base/bytes.ts";
import type { Contract } from "../../../src/contracts/contract.ts";
import { functionCalls } from "../../../src/peer/function-call.ts";
import { FunctionHost } from "../../../src/peer/function-host.ts";
import { PlainMemory } from "../../../src/peer/request-assembly.ts";
import { servedFunction } from "../../../src/peer/served-function.ts";
import type { Fields, FieldValues } from "../../../src/wire/function-schema.ts";
import { RecordedExchange } from "../recorded-exchange.ts";
import { describeVector, type VectorHeader } from "../vector-file.ts";
import type { DocumentedFunction, FunctionExample } from "./documented.ts";

type FunctionFrames = {
  readonly fields: Readonly<Record<string, unknown>>;
  readonly frames: readonly { readonly header: VectorHeader; readonly hex: string }[];
};

export type FunctionVector = {
  readonly function: string;
  readonly signature: string;
  readonly request: FunctionFrames;
  readonly response: FunctionFrames;
};

/** A call's number at its sender. */
const CALL_NUMBER = 7;
const EPOCH = 1;

export function vectorFileName(name: string): string {
  return `${name.replace(/^wb\//, "").replaceAll("/", "-")}.json`;
}

/** Of a function that has an example. */
export async function makeFunctionVector({ contract, example }: DocumentedFunction): Promise<FunctionVector> {
  if (contract === undefined || example === undefined) throw new Error("a function by name has an example");
  const exchange = exchangeOf(contract, example);
  const { request } = example;
  const epoch = contract.isPlaced ? EPOCH : 0;
  const ends = { answered: () => {}, failed: () => {} };
  for (const call of functionCalls({ fn: contract, request, number: CALL_NUMBER, priority: 0, scope: 0, epoch, ...ends }))
    exchange.requester.channel.send(call);
  const { asked, answered } = await exchange.settle();
  return {
    function: contract.name,
    signature: contract.signature,
    request: { fields: fieldsOf(request), frames: framesOf(asked) },
    response: { fields: fieldsOf(example.response), frames: framesOf(answered) },
  };
}

/** A server that answers the function with its example, and refuses what does not add up. */
export function exchangeOf(contract: Contract, { response }: FunctionExample): RecordedExchange {
  const exchange = new RecordedExchange();
  const contextOf = (): { releaseAll(): void; heldBy(): undefined } => ({ releaseAll: () => {}, heldBy: () => undefined });
  const host = new FunctionHost({ clock: exchange.clock, memory: new PlainMemory(), contextOf });
  const answer = (): FieldValues<Fields> => response;
  const answersAgain = contract.isUpdate && !contract.keepsAnswers && !contract.response.isEmpty;
  host.add(servedFunction(contract, { handler: answer, ...(answersAgain ? { again: answer } : {}) }));
  exchange.server.peer.hostFunctions(host);
  return exchange;
}

function framesOf(frames: readonly Uint8Array[]): FunctionFrames["frames"] {
  return describeVector({ name: "", about: "", frames }).frames.map(({ header, hex }) => ({ header, hex }));
}

/** As JSON has them: lists for arrays, decimal texts for what may be above 2^53, null for what is left out. */
export function fieldsOf(values: FieldValues<Fields>): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, plain(value)]));
}

function plain(value: unknown): unknown {
  if (typeof value === "bigint") return value.toString();
  if (ArrayBuffer.isView(value)) return Array.from(value as unknown as Iterable<number | bigint>, plain);
  return value === undefined ? null : JSON.parse(JSON.stringify(value));
}

/** The payload of a request or an answer, its frames joined. */
export function payloadOf({ frames }: FunctionFrames, fromHex: (hex: string) => Uint8Array): Uint8Array {
  return joinBytes(frames.map(({ header, hex }) => fromHex(hex).subarray(64, 64 + header.payloadBytes)));
}
