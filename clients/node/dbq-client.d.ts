/** A task to enqueue. The payload is text, stored as it is, or another value, stored as JSON. */
export interface NewTask {
  kind?: string
  payload?: unknown
  payload_base64?: string
  reference?: string
  key?: string
  priority?: number
  delay_seconds?: number
  run_at?: string
  max_attempts?: number
  headers?: Record<string, string>
  unique?: Record<string, unknown>
  id?: string
}

/** The id of a task and, if no task was added, what happened instead. A duplicate may lack the id. */
export interface Enqueued {
  id?: string
  duplicate?: boolean
  replaced?: boolean
  debounced?: boolean
}

/** A response that reports an error. */
export class Problem extends Error {
  readonly status: number
  /** The name that docs/http.md lists, such as "lease-lost", or "" if the response is not one of dbq. */
  readonly type: string
  readonly title: string
  /** What to do about it. */
  readonly detail: string
  /** The fields that were refused. */
  readonly errors: ReadonlyArray<{ location: string, message: string }>
  /** How many seconds the server requests to wait. */
  readonly retryAfter: number
  /** The same request may succeed later. */
  readonly transient: boolean
}

export type OutcomeName = 'complete' | 'delete' | 'fail' | 'retry' | 'park' | 'poison' | 'release'

export interface OutcomeFields {
  result?: unknown
  result_base64?: string
  error?: string
  delay_seconds?: number
  retry_at?: string
}

/** What a handler throws or returns to choose the outcome: new Outcome('retry', { delay_seconds: 60 }). */
export class Outcome extends Error {
  constructor (outcome: OutcomeName, fields?: OutcomeFields)
}

/** A task that a worker has leased. It has the fields of the API, also those that are not listed here. */
export interface Task {
  readonly id: string
  readonly queue: string
  readonly kind: string
  readonly reference: string
  readonly key: string
  readonly priority: number
  readonly attempt: number
  readonly max_attempts: number
  readonly created: string
  readonly headers: Record<string, string>
  /** Text, or a Buffer if it is not UTF-8. */
  readonly payload: string | Uint8Array | null
  /** The next heartbeat stores up to 1000 characters of it, with which the next attempt begins. */
  progress: string | number | null
  /** Aborted if the lease is lost: the handler should end; nothing is stored. */
  readonly signal: AbortSignal
  /** Returns the payload, parsed as JSON. If that fails, the Outcome that it throws parks the task. */
  json (): any
}

/** Calls the API for a queue. The token is the option, the text in the file $DBQ_TOKEN_FILE, or $DBQ_TOKEN. */
export class Client {
  constructor (queue: string, options?: {
    url?: string
    database?: string
    token?: string
    /** Gets one line for each event, without secrets. By default it is console.warn. */
    log?: (line: string) => void
  })

  /**
   * Adds all of the tasks or none, and returns an entry for each. While the server does not answer, the call is
   * repeated, which adds no task twice. After about `patience` seconds in all, 5 by default, it throws the last error.
   */
  enqueue (tasks: readonly NewTask[], options?: { patience?: number }): Promise<Enqueued[]>
}

/** The result is stored with the task. If the handler throws an error, the task is retried. */
export type Handler = (task: Task) => unknown

/** Calls the handler of each task's kind, for up to `concurrency` tasks at once. */
export class Worker {
  constructor (client: Client, options?: {
    concurrency?: number
    leaseSeconds?: number
    waitSeconds?: number
    drainSeconds?: number
    name?: string
  })

  /** Registers the handler of a kind. That of '' gets the tasks of all other kinds, and those without a kind. */
  handle (kind: string, handler: Handler): void

  /**
   * Works until stop is called or one of the signals arrives, by default SIGTERM or SIGINT. Then it drains. It throws a
   * Problem if the server refuses a checkout. A second signal has its usual effect.
   */
  run (options?: { signals?: readonly string[] }): Promise<void>

  /** Makes run drain and return. */
  stop (): void
}
