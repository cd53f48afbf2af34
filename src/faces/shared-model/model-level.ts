// model-level — level 2 of a shared model as the face has it: what stands above the devices of one machine, and takes
// settings of its updater through the model's setParam.

import type { LevelTwo } from "../../worker/level-one/level-two.ts";

export interface ModelLevel extends LevelTwo {
  /** The number of this worker; after `open`. */
  readonly rank: number;
  /** Names of settings that `setParam` takes. */
  readonly settingNames: readonly string[];
  /** Sets one of them, before `open`. Throws BAD_ARGUMENT for a value that it cannot have. */
  setParam(name: string, value: string): void;
}
