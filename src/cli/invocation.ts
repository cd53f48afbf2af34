// invocation — one call of the command: what holds whichever subcommand it is.

import type { StandardOutput } from "./standard-output.ts";

export type Invocation = {
  readonly output: StandardOutput;
  /** How a command ends that ends without an error and yet not well. */
  exitCode: number;
  /** Errors are told with their stacks. */
  isVerbose: boolean;
};
