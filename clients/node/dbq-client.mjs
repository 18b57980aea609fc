// A client and a worker for the HTTP API of dbq, on Node's standard library alone.
//
//   await new Client('mail').enqueue([{ kind: 'send-mail', payload: { to: 'ann@example.com' } }])
//
//   const worker = new Worker(new Client('mail'))
//   worker.handle('send-mail', sendMail)
//   await worker.run()
//
// dbq-client.d.ts documents the exported names.
import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { hostname } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

export class Problem extends Error {
  constructor (status, body = {}, retryAfter = null) {
    const { title = 'the response is not one of dbq serve', detail = '', errors = [] } = body
    status = body.status ?? status
    const fields = errors.map(e => `; ${e.location}: ${e.message}`).join('')
    super(`${title} (${status})${detail && ': '}${detail}${fields}`)
    const [, type = ''] = /^urn:dbq:problem:(.*)$/.exec(body.type) ?? []
    const again = [408, 425, 429].includes(status) || ['locked', 'body-unreadable'].includes(type)
    const refused = [400, 413, 422].includes(status) && !again // because of its content
    Object.assign(this, { name: 'Problem', status, type, title, detail, errors, retryAfter: Number(retryAfter) || 0 })
    Object.assign(this, { transient: again || status >= 500, refused })
  }
}

export class Outcome extends Error {
  constructor (outcome, fields = {}) {
    super(outcome)
    Object.assign(this, { name: 'Outcome', fields: { outcome, ...fields } })
  }
}

class Task {
  constructor (fields, signal) {
    const { lease, payload_base64: bytes, ...others } = fields
    const defaults = { kind: '', reference: '', key: '', headers: {}, payload: null, progress: null }
    Object.assign(this, defaults, others, { signal })
    if (bytes !== undefined) this.payload = Buffer.from(bytes, 'base64')
  }

  json () {
    try {
      return JSON.parse(String(this.payload ?? ''))
    } catch (e) {
      throw new Outcome('park', { error: `the payload is not JSON: ${e.message}` })
    }
  }
}

export class Client {
  #path
  #token

  constructor (queue, { url = 'http://127.0.0.1:8321', database = 'default', token, log = console.warn } = {}) {
    if (!/^https?:\/\/[^/]/.test(url)) throw new TypeError('the url is not of the form https://host/prefix')
    this.#path = `${url.replace(/\/+$/, '')}/v1/db/${database}/queues/${encodeURIComponent(queue)}/`
    this.#token = token
    this.log = log
  }

  async enqueue (tasks, { patience = 5 } = {}) {
    if (tasks.length === 0) return []
    const ids = tasks.map(newID)
    const body = { tasks: tasks.map((task, i) => ({ id: ids[i], ...task })) }
    const out = (await this.repeat('tasks/batch', body, { patience, timeout: patience / 2 })).tasks
    out.forEach((enqueued, i) => {
      if (enqueued.id === ids[i]) delete enqueued.duplicate // an earlier call, whose response was lost, has added it
    })
    return out
  }

  // call sends one request. It throws a Problem, or another error if no response arrives in `timeout` seconds.
  async call (path, body, timeout = 30) {
    const headers = { 'Content-Type': 'application/json' }
    const file = process.env.DBQ_TOKEN_FILE // read each time, as it may be replaced
    const token = this.#token ?? (file ? (await readFile(file, 'utf8')).trim() : process.env.DBQ_TOKEN)
    if (token) headers.Authorization = `Bearer ${token}`
    const request = { method: 'POST', headers, body: encode(body), redirect: 'manual' }
    const late = new AbortController() // AbortSignal.timeout would let a process end while it waits for the response
    const timer = setTimeout(() => late.abort(new Error('no response in time')), Math.ceil(timeout * 1000))
    try {
      const response = await fetch(this.#path + path, { ...request, signal: late.signal })
      const out = parse(await response.text())
      const problem = response.ok && out ? out.settled?.[0].problem : out ?? {}
      if (problem) throw new Problem(response.status, problem, response.headers.get('Retry-After'))
      return out
    } finally {
      clearTimeout(timer)
    }
  }

  // repeat calls until the request succeeds or is refused, the signal is aborted, or `patience` seconds have passed.
  async repeat (path, body, { signal, patience = Infinity, timeout = 30 } = {}) {
    const end = performance.now() + patience * 1000
    for (let pause = 0.1; ; pause = Math.min(pause * 2, 10)) {
      try {
        return await this.call(path, body, Math.max(Math.min(timeout, (end - performance.now()) / 1000), 1))
      } catch (e) {
        const wait = Math.max(pause, Math.min(e.retryAfter ?? 0, 60)) * (1000 + Math.random() * 500)
        if (e.transient === false || signal?.aborted || performance.now() + wait > end) throw e
        this.log(`dbq: ${path} is repeated: ${e.cause?.message || e.message}`)
        await sleep(wait, null, { signal }).catch(() => {})
      }
    }
  }
}

export class Worker {
  #client
  #options
  #handlers = new Map()
  #unknown = new Map() // since when tasks of kinds without a handler arrive
  #line = -Infinity // when the log had a line about them
  #running = new Set() // tasks, each with its lease
  #changed = () => {} // called when a task ends, and by stop
  #renewing = null // a heartbeat, which may change leases
  #stopping = new AbortController()
  #ended = new AbortController()

  constructor (client, options = {}) {
    const name = `${hostname()}/${process.pid}`
    this.#client = client
    this.#options = { concurrency: 10, leaseSeconds: 30, waitSeconds: 5, drainSeconds: 30, name, ...options }
    this.#stopping.signal.addEventListener('abort', () => this.#changed())
  }

  handle (kind, handler) {
    if (this.#handlers.has(kind)) throw new Error(`the kind ${JSON.stringify(kind)} already has a handler`)
    this.#handlers.set(kind, handler)
  }

  async run ({ signals = ['SIGTERM', 'SIGINT'] } = {}) {
    const { signal } = this.#stopping
    const stop = () => this.stop()
    for (const name of signals) process.once(name, stop)
    this.#heartbeat()
    try {
      while (!signal.aborted) {
        const room = this.#options.concurrency - this.#running.size
        if (room > 0) await this.#checkout(room)
        else await new Promise(resolve => { this.#changed = resolve }) // a race would keep a reaction for each task
      }
    } catch (e) {
      if (!signal.aborted) throw e
    } finally {
      await this.#drain()
      this.#ended.abort()
      for (const name of signals) process.off(name, stop)
    }
  }

  stop () {
    this.#stopping.abort()
  }

  async #checkout (max) {
    const { leaseSeconds, waitSeconds, name } = this.#options
    const body = { max, lease_seconds: leaseSeconds, wait_seconds: waitSeconds, worker: name }
    const options = { signal: this.#stopping.signal, timeout: waitSeconds + 30 }
    for (const fields of (await this.#client.repeat('checkout', body, options)).tasks) {
      const [lost, until] = [new AbortController(), performance.now() + leaseSeconds * 1000]
      const task = new Task(fields, lost.signal)
      const run = { task, lost, until, lease: fields.lease, stored: task.progress }
      this.#running.add(run)
      run.ended = this.#work(run)
    }
  }

  async #work (run) {
    const { task } = run
    const handler = this.#handlers.get(task.kind) ?? this.#handlers.get('') ?? (() => this.#putBack(task))
    const complete = result => result instanceof Outcome ? result : new Outcome('complete', { result })
    const fail = e => e instanceof Outcome ? e : new Outcome('fail', { error: textOf(e) })
    const { fields } = await Promise.resolve(task).then(handler).then(complete).catch(fail)
    await this.#settle(run, fields)
    this.#running.delete(run)
    this.#changed()
  }

  // putBack releases a task whose kind has no handler here, as in a rolling deploy. Another worker may have one.
  #putBack ({ kind, created }) {
    const now = performance.now()
    if (!this.#unknown.has(kind) && this.#unknown.size >= 20) kind = 'other kinds'
    if (!this.#unknown.has(kind)) this.#unknown.set(kind, now)
    if (now - this.#line > 60_000) {
      this.#line = now
      const kinds = [...this.#unknown.keys()].map(k => JSON.stringify(k)).join(', ')
      this.#client.log(`dbq: tasks of kinds without a handler go back to the queue: ${kinds}`)
    }
    const met = Math.min(now - this.#unknown.get(kind), Date.now() - Date.parse(created)) / 1000
    const pause = Math.min(Math.max(met / 8, 1), 600)
    return new Outcome('release', { delay_seconds: pause * (0.5 + Math.random() / 2) })
  }

  async #settle (run, fields) {
    await this.#renewing
    if (!run.lease) return
    const held = heldOf(run)
    run.lease = null
    const options = { signal: this.#ended.signal, timeout: this.#options.leaseSeconds / 3 }
    const settle = fields => this.#client.repeat('settle', { settlements: [{ ...held, ...fields }] }, options)
    const unsettled = e => this.#client.log(`dbq: task ${run.task.id} is not settled: ${e.message}`)
    await settle(fields).catch(e => {
      unsettled(e)
      if (!e.refused) return // another attempt begins when the lease has expired
      return settle({ outcome: 'fail', error: `the outcome cannot be stored: ${e.message}` }).catch(unsettled)
    })
  }

  async #heartbeat () {
    const seconds = this.#options.leaseSeconds / 3
    while (await sleep(seconds * 1000, true, { signal: this.#ended.signal }).catch(() => false)) {
      const held = [...this.#running].filter(run => run.lease)
      if (held.length > 0) await (this.#renewing = this.#renew(held, seconds))
    }
  }

  async #renew (held, timeout) {
    const begin = performance.now()
    const { leaseSeconds } = this.#options
    const body = { lease_seconds: leaseSeconds, leases: held.map(heldOf) }
    const failed = e => this.#client.log(`dbq: the heartbeat failed: ${e.cause?.message || e.message}`)
    const leases = (await this.#client.call('extend', body, timeout).catch(failed))?.leases ?? []
    held.forEach((run, i) => {
      const { lease, problem } = leases[i] ?? {}
      if (lease) Object.assign(run, { lease, until: begin + leaseSeconds * 1000 })
      else if (problem || performance.now() > run.until) {
        this.#client.log(`dbq: the lease of task ${run.task.id} is lost`)
        lose(run)
      }
    })
  }

  async #drain () {
    const end = seconds => Promise.race([
      Promise.all([...this.#running].map(run => run.ended)), sleep(seconds * 1000, null, { ref: false })
    ])
    await end(this.#options.drainSeconds)
    await this.#renewing
    const late = [...this.#running].filter(run => run.lease)
    const settlements = late.map(run => ({ ...heldOf(run), outcome: 'release' }))
    late.forEach(lose)
    await end(1)
    if (settlements.length === 0) return
    await this.#client.repeat('settle', { settlements }, { patience: 5 })
      .catch(e => this.#client.log(`dbq: ${settlements.length} tasks are not released: ${e.message}`))
  }
}

function lose (run) {
  run.lease = null
  run.lost.abort()
}

// heldOf returns the lease of a task and, if the handler has set it, its progress. The API allows 4000 bytes.
function heldOf ({ task: { progress }, lease, stored }) {
  return progress === stored ? { lease } : { lease, progress: textOf(progress ?? '').slice(0, 1000) }
}

let lastID = 0n

// newID returns a UUID of version 7. Ids increase, so that tasks are handed out in the order of their enqueue.
function newID () {
  const now = BigInt(Date.now()) << 12n
  lastID = now > lastID ? now : lastID + 1n
  const time = (lastID >> 12n).toString(16).padStart(12, '0')
  const sequence = (lastID & 0xfffn).toString(16).padStart(3, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${sequence}-${randomUUID().slice(19)}`
}

function encode (value) {
  try {
    return JSON.stringify(value)
  } catch (e) {
    throw new Problem(400, { title: textOf(e) })
  }
}

function parse (text) {
  try {
    const value = JSON.parse(text)
    return typeof value === 'object' ? value : null
  } catch {
    return null
  }
}

function textOf (value) {
  try {
    return String(value)
  } catch {
    return `a ${typeof value} without a text`
  }
}
