// function-request — a call of a typed function of the servers: what it is about, its fields, and the callbacks for its
// end. Types alone: router.ts sends it, function-recut.ts cuts it again.

import type { WeighbridgeError } from "../../base/errors.ts";
import type { Contract } from "../../contracts/contract.ts";
import type { CallFate } from "../../peer/call.ts";
import type { Fields, FieldValues } from "../../wire/function-schema.ts";
import type { ParameterHandle } from "../parameter-handle.ts";
import type { Route } from "./server-directory.ts";

/** How a call of a function is sent. */
export type FunctionCallSettings = {
  /** Higher overtakes lower between frames. Defaults to 0. */
  readonly priority?: number | undefined;
  /** @internal Reads follow this worker's own updates of the same scope. */
  readonly scope?: number | undefined;
  /** Where a response lands that is one array. */
  readonly into?: ArrayBufferView | undefined;
  /** @internal What its bytes are counted as; left out: as the function's. */
  readonly countedAs?: string | undefined;
};

/** One call of a group. */
export type FunctionRequest<Q extends Fields, R extends Fields> = FunctionCallSettings & {
  /** What it is about; the router finds the server. */
  readonly to: Route;
  /** The parameter that it is about; left out: that of its group. */
  readonly subject?: ParameterHandle | undefined;
  readonly request: FieldValues<Q>;
  readonly answered?: ((response: FieldValues<R>) => void) | undefined;
  /** Called with the failure, before the caller of the group gets it. */
  readonly failed?: (error: WeighbridgeError, fate?: CallFate) => void;
  /** Called with the call that completes the request, whenever it is cut: its stamp is set when it leaves. */
  readonly made?: ((call: { readonly stamp: number }) => void) | undefined;
  /**
   * For rows, which may have several owners by now: returns requests with its content, cut by the current placement.
   * Left out, the request goes to the owner as it is. May throw.
   */
  readonly cutAgain?: (() => Recut) | undefined;
  /** For an applied update whose answer was lost: returns reads of that answer. Left out: ANSWER_LOST. May throw. */
  readonly answerLost?: (() => Recut) | undefined;
  /**
   * For a request whose server lacks the key list that it names, and has done nothing: returns the same with its keys.
   * Left out, it fails with UNKNOWN_KEY_LIST.
   */
  readonly keysUnknown?: (() => AnyRequest) | undefined;
};

/** A request of some function: the types of its fields were checked where it was made. */
export type AnyRequest = { readonly fn: Contract; readonly options: FunctionRequest<Fields, Fields> };

/** What takes the place of a request. */
export type Recut = {
  readonly requests: readonly AnyRequest[];
  /** All of them were answered. */
  readonly answered?: (() => void) | undefined;
  /** All of them have ended: their memory is no longer sent from. */
  readonly release: () => void;
};

/** Payload bytes of one function since the recording began, both ways; what travels twice counts once. */
export type FunctionLoad = { sentBytes: number; receivedBytes: number };
