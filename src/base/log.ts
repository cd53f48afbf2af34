// log — a node's log lines. One method per level; fields are plain data. node/text-log.ts writes them.

export type LogFields = Readonly<Record<string, unknown>>;

export type Log = {
  debug(message: string, fields?: LogFields): void;
  info(message: string, fields?: LogFields): void;
  warn(message: string, fields?: LogFields): void;
  error(message: string, fields?: LogFields): void;
};

/** Drops every line. */
export const SILENT_LOG: Log = { debug() {}, info() {}, warn() {}, error() {} };
