// parameter-files — ParameterFiles saves and loads single parameters, apart from the checkpoints of the job: what Hetu
// calls ParamSave and ParamLoad. The servers write and read (server/checkpoint); this says where, and one after the
// other.
//
//   <the servers' directory of checkpoints>/<directory>/<the parameter's name>/step-000003/
//                                                          what was saved last: a checkpoint of one parameter
//
// Invariants:
//   ParameterFiles.F1. One name, one directory: two parameters never share one, whatever letters they have.
//   ParameterFiles.F2. What was saved before stays until what is saved now is whole.

import { badArgument, showValue } from "../base/errors.ts";
import { InTurn } from "../base/in-turn.ts";
import { hashText } from "../keys/mix.ts";
import { loadParameter, type ServerCalls, takeCheckpoint } from "./checkpoint.ts";
import { checkName } from "./parameter-options.ts";

/** Longer names are cut, and told apart by what the whole name hashes to: no two parameters of a server share that. */
const FILE_NAME_LENGTH_MAX = 80;

export class ParameterFiles {
  /** Servers take one save of a worker at a time. */
  readonly #turns = new InTurn();
  #saveCount = 0;

  /** Whether something is being saved, or waits for its turn. */
  get isSaving(): boolean {
    return this.#saveCount > 0;
  }

  /** Settles when everything that was asked for is saved and loaded, or failed; never rejects. */
  get ended(): Promise<unknown> {
    return this.#turns.ended;
  }

  /** For a worker at clock `ownClock()`. Throws BAD_ARGUMENT for a bad directory, and what `takeCheckpoint` throws. */
  async save(servers: ServerCalls, parameter: string, directory: string, ownClock: () => number): Promise<void> {
    const path = `${checked(directory)}/${fileNameOf(parameter)}`;
    const createdAt = new Date().toISOString();
    this.#saveCount++;
    try {
      await this.#turns.run(() => takeCheckpoint(servers, { parameter, directory: path, keep: 1, createdAt, ownClock }));
    } finally {
      this.#saveCount--;
    }
  }

  /** Throws BAD_ARGUMENT as `save`, and what `loadParameter` throws. */
  async load(servers: ServerCalls, parameter: string, directory: string): Promise<void> {
    const path = `${checked(directory)}/${fileNameOf(parameter)}`;
    await this.#turns.run(() => loadParameter(servers, { parameter, directory: path }));
  }
}

function checked(directory: string): string {
  if (typeof directory === "string" && directory !== "") return directory;
  throw badArgument(`a directory below the servers' checkpoint directory must have a name, not ${showValue(directory)}`);
}

/** ParameterFiles.F1. Throws BAD_ARGUMENT. */
function fileNameOf(parameter: string): string {
  checkName(parameter);
  const escaped = [...new TextEncoder().encode(parameter)].map((byte) => letterOf(byte)).join("");
  if (escaped.length <= FILE_NAME_LENGTH_MAX && parameter.isWellFormed()) return escaped;
  return `${escaped.slice(0, FILE_NAME_LENGTH_MAX)}.${hashText(parameter).toString(16)}`;
}

function letterOf(byte: number): string {
  const letter = String.fromCharCode(byte);
  return /[A-Za-z0-9_-]/.test(letter) ? letter : `%${byte.toString(16).padStart(2, "0")}`;
}
