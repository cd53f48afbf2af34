// step-option — the flag that chooses one of several checkpoints.

import { Option } from "commander";
import { wholeNumber } from "../whole-number.ts";

export function stepOption(): Option {
  const step = new Option("--step <number>", "of several checkpoints the one of this step; the newest when left out");
  return step.argParser(wholeNumber({ min: 0, max: Number.MAX_SAFE_INTEGER }));
}
