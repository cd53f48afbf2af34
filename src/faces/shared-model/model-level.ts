// model-level — level 2 of a shared model as the face has it: what stands above the devices of one machine, and takes
// settings of its updater through the model's setParam. And the session of a "dist" model: the user's own, or one that
// `init` opens and `close` leaves with.

import type { Session } from "../../api/session.ts";
import type { WaitOptions } from "../../base/deferred.ts";
import { WeighbridgeError } from "../../base/errors.ts";
import type { LevelTwo } from "../../worker/level-one/level-two.ts";

export interface ModelLevel extends LevelTwo {
  /** The number of this worker; after `open`. */
  readonly rank: number;
  /** Names of settings that `setParam` takes. */
  readonly settingNames: readonly string[];
  /** Sets one of them, before `open`. Throws BAD_ARGUMENT for a value that it cannot have. */
  setParam(name: string, value: string): void;
}

/** Joins the cluster as a worker. */
export type Connect = (wait: WaitOptions) => Promise<Session>;

export class DistSession {
  readonly #given: Session | undefined;
  readonly #connect: Connect;
  #session: Session | undefined;
  #isClosed = false;

  constructor(given: Session | undefined, connect: Connect) {
    this.#given = given;
    this.#connect = connect;
  }

  get value(): Session {
    if (this.#session === undefined) throw new WeighbridgeError("CLOSED", "the shared model is in no cluster");
    return this.#session;
  }

  async open(wait: WaitOptions): Promise<void> {
    this.#session ??= this.#given ?? (await this.#connect(wait));
    if (this.#isClosed) await this.close();
  }

  /** Leaves the cluster, together with all other nodes; does nothing to the user's own session. */
  async close(): Promise<void> {
    this.#isClosed = true;
    if (this.#given === undefined) await this.#session?.close();
  }
}
