// command-line-desk — what those who are no nodes ask of a server's checkpoint service, as the scheduler hands it on. Each asker is an owner of its own,
// and has bodies in pieces of its own (long-bodies.ts).
//
// K1. An asker that is gone owns nothing any more: the scheduler says so with the operation `gone`.

import { ASKER_GONE, type CheckpointReply, type CheckpointRequest } from "../../wire/control.ts";
import type { CheckpointService } from "./checkpoint-service.ts";
import { LongBodies } from "./long-bodies.ts";

export class CommandLineDesk {
  readonly #service: CheckpointService;
  readonly #bodies = new Map<string, LongBodies>();

  constructor(service: CheckpointService) {
    this.#service = service;
  }

  /** Rejects with what the operation throws. */
  async serve({ op, body, asker = "" }: CheckpointRequest): Promise<CheckpointReply> {
    const owner = asker === "" ? "the command line" : `the command line (${asker})`;
    if (op === ASKER_GONE) {
      this.#bodies.delete(asker);
      this.#service.forget(owner); // K1
      return { body: "{}" };
    }
    const bodies = this.#bodies.get(asker) ?? new LongBodies((wanted, whole) => this.#service.handle(wanted, whole, owner));
    this.#bodies.set(asker, bodies);
    return await bodies.serve(op, body);
  }
}
