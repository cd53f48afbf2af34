// parameter-handle — what a tensor or an embedding knows of its parameter: name, number, and for every server the
// incarnation in which the parameter was found or made. A restarted server has a new incarnation, and nothing that was
// pushed to the one before unless it was restored; another worker may have made the parameter anew there.
// router/request-queue.ts queries the servers.
//
//   handle knows incarnation 1 of server s ─► s is restarted ─► the next call asks incarnation 2 for its parameter:
//       restored or loaded    the handle knows incarnation 2, the call leaves
//       made anew             UNKNOWN_PARAMETER, nothing was sent; the next call asks again
//       not there             UNKNOWN_PARAMETER, from the server
//
// Invariants:
//   ParameterHandle.L1. A call leaves only for incarnations that the handle knows: for all its servers or for none.
//   ParameterHandle.L2. The caller gets no answer of an incarnation that the handle does not know: reads that travel to
//       a new incarnation by themselves (peer/channel.ts) are requested again behind ParameterHandle.L1.
//   ParameterHandle.L3. A link that breaks and comes back is no new incarnation: it needs no query.
//   ParameterHandle.L4. While the query of a new incarnation is open, all later calls of the worker wait: reads follow
//       own pushes, and CLOCK follows what was pushed before it.

import { WeighbridgeError } from "../base/errors.ts";
import { parameterState } from "../contracts/parameters.ts";
import { idOf, nameOf } from "../wire/node-id.ts";
import type { NamedParameter } from "./call-failures.ts";
import type { PushNumbers } from "./worker-clock.ts";

export class ParameterHandle implements NamedParameter {
  readonly name: string;
  readonly maker: NamedParameter["maker"];
  /** Its number on the wire. */
  readonly parameter: number;
  /** By rank, the incarnation of each server that has it; undefined: none known. The router compares them. */
  readonly incarnations: (number | undefined)[] = [];
  /** Numbers what is pushed, for all handles of the session. */
  readonly pushes: PushNumbers;
  /** The query of a new incarnation. Here, so that a worker without parameters loads none of their contracts. */
  readonly originFunction: typeof parameterState = parameterState;

  constructor({ name, maker, parameter }: Pick<ParameterHandle, "name" | "maker" | "parameter">, pushes: PushNumbers) {
    this.pushes = pushes;
    this.name = name;
    this.maker = maker;
    this.parameter = parameter;
  }

  /** The number of a push that is about to leave, at this clock: all its frames carry it. */
  numberPush(clock: number): number {
    return this.pushes.next(this.parameter, clock);
  }

  /** The parameter was found or made there, in this incarnation. */
  found(server: number, incarnation: number): void {
    this.incarnations[server] = incarnation;
  }

  /** The error for an incarnation in which another worker made the parameter: nothing is sent there. */
  lost(server: number, incarnation: number): WeighbridgeError {
    const what = `${nameOf(idOf("server", server))} was restarted (incarnation ${incarnation}) and has lost all that was pushed to it, and somebody has made the parameter anew there`;
    const then = `nothing was sent; restore a checkpoint, or make it again with ${this.maker}() to go on with what is there now`;
    return new WeighbridgeError("UNKNOWN_PARAMETER", `no parameter ${JSON.stringify(this.name)} as this worker knew it: ${what}; ${then}`);
  }
}
