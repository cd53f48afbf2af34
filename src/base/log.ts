// log — what a node says about itself. One method per level; fields are plain data. Who writes it down is a matter of node/ (text-log.ts).

export type LogFields = Readonly<Record<string, unknown>>;

export type Log = {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
};

/** Says nothing. */
export const SILENT_LOG: Log = { debug() {}, info() {}, warn() {}, error() {} };
