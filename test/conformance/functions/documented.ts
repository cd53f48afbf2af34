// documented — what spec/functions.md says of a function beside its contract: a sentence for it and for each of its
// fields, the errors that it may fail with, and an example, of which its golden vector is made. The types ask for
// exactly the fields of the contract. Nothing that runs imports this.

import type { ErrorCode } from "../../../src/base/errors.ts";
import type { Contract, Effect, FrameContract, JsonContract, Target } from "../../../src/contracts/contract.ts";
import type { ExchangeContract } from "../../../src/contracts/row-exchange.ts";
import { FunctionId } from "../../../src/wire/function-id.ts";
import type { Fields, FieldValues } from "../../../src/wire/function-schema.ts";

/** A sentence for each field. */
type Texts<T> = { readonly [K in keyof T]-?: string };

export type DocumentedFunction = {
  readonly name: string;
  readonly target: Target;
  /** Who serves it, where that is fewer than the target says. */
  readonly servedBy?: string;
  readonly effect: Effect;
  readonly about: string;
  /** By field. */
  readonly request: Readonly<Record<string, string>>;
  readonly response: Readonly<Record<string, string>>;
  /** Beside those that every function has (page.ts). */
  readonly errors: readonly ErrorCode[];
  /** Undefined: its frames have a layout of their own. */
  readonly contract: Contract | undefined;
  /** Where the layout of its frames is described. */
  readonly layout: string | undefined;
  /** How frames name it. */
  readonly label: string;
  readonly example: FunctionExample | undefined;
  /** Golden vectors that are not made of an example, by name. */
  readonly vectors: readonly string[];
};

export type FunctionExample = { readonly request: FieldValues<Fields>; readonly response: FieldValues<Fields> };

/** Functions that belong together. */
export type FunctionFamily = { readonly title: string; readonly about: string; readonly functions: readonly DocumentedFunction[] };

type Words = { readonly about: string; readonly servedBy?: string; readonly errors: readonly ErrorCode[] };

/** A function whose fields its schemas list. */
export function documented<Q extends Fields, R extends Fields>(
  contract: Contract<Q, R>,
  words: Words & {
    readonly request: Texts<Q>;
    readonly response: Texts<R>;
    readonly example: { readonly request: FieldValues<Q>; readonly response: FieldValues<R> };
  },
): DocumentedFunction {
  const { name, target, effect } = contract;
  const plain = { contract: contract as unknown as Contract, example: words.example as unknown as FunctionExample };
  return { ...words, ...plain, name, target, effect, label: labelOf(contract), layout: undefined, vectors: [] };
}

/** A function by name with one JSON object each way. */
export function documentedJson<Q, R>(
  contract: JsonContract<Q, R>,
  words: Words & {
    readonly request: Texts<Q>;
    readonly response: Texts<R>;
    readonly example: { readonly request: Q; readonly response: R };
  },
): DocumentedFunction {
  const { request, response } = words.example;
  const example = { request: { body: request }, response: { body: response } } as unknown as FunctionExample;
  const { name, target, effect } = contract;
  const common = { name, target, effect, label: labelOf(contract), layout: undefined, vectors: [] };
  return { ...words, ...common, contract: contract as unknown as Contract, example };
}

/** A function with a number of its own and JSON bodies; `vectors` are its request and its reply. */
export function documentedControl<Q, R>(
  contract: JsonContract<Q, R>,
  words: Words & { readonly request: Texts<Q>; readonly response: Texts<R>; readonly vectors: readonly [string, string, ...string[]] },
): DocumentedFunction {
  const { name, target, effect } = contract;
  return {
    ...words,
    contract: contract as unknown as Contract,
    example: undefined,
    name,
    target,
    effect,
    label: labelOf(contract),
    layout: undefined,
  };
}

/** A function whose frames have a layout of their own. */
export function documentedFrames(
  { name, target, effect, id, layout }: FrameContract,
  words: Words & { readonly vectors: readonly string[] },
): DocumentedFunction {
  return {
    ...words,
    request: {},
    response: {},
    contract: undefined,
    example: undefined,
    name,
    target,
    effect,
    layout,
    label: `number ${id}`,
  };
}

/** A message that workers hand each other in an EXCHANGE. */
export function documentedExchange(
  { kind, name, target, effect }: ExchangeContract,
  { layout, ...words }: { readonly about: string; readonly layout: string },
): DocumentedFunction {
  const nothing = { request: {}, response: {}, contract: undefined, example: undefined, errors: [] };
  const vectors = [name.replace("wb/", "").replaceAll("/", "-")];
  return { ...words, ...nothing, vectors, name, target, effect, layout, label: `kind ${kind}` };
}

function labelOf({ id, nameHash }: { readonly id: number; readonly nameHash: number }): string {
  return id === FunctionId.FUNCTION ? `command ${nameHash}` : `number ${id}`;
}
