// invocation — one call of the command: what holds whichever subcommand it is.

export type Invocation = {
  /** How a command ends that ends without an error and yet not well. */
  exitCode: number;
  /** Errors are told with their stacks. */
  isVerbose: boolean;
};
