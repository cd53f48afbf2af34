// create-shared-model — composes a shared model for Node: its clock, its files, the devices that it may have.

import { writeFile } from "node:fs/promises";
import { LocalModel } from "../faces/shared-model/local-model.ts";
import type { SharedModel, SharedModelOptions, SharedModelType } from "../faces/shared-model/shared-model.ts";
import type { RowArrays, RowElement } from "../kernel/row-element.ts";
import { realClock } from "./real-clock.ts";
import { timeline } from "./shared-model-threads.ts";

/**
 * A model of the devices of this process. Throws BAD_ARGUMENT for an option that does not exist, or a value that cannot
 * be; UNSUPPORTED for what is not offered here.
 */
export function createSharedModel<E extends RowElement = "f32">(
  type: SharedModelType,
  options: SharedModelOptions<E> = {},
): SharedModel<RowArrays[E]> {
  return new LocalModel<RowArrays[E]>(type, options, {
    ...{ clock: realClock(), timeline },
    writeTrace: async (path, trace) => await writeFile(path, JSON.stringify(trace)),
  });
}
