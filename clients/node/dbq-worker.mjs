// A client and a worker for dbq's HTTP API, on Node's standard library alone: copy this file. See docs/clients.md.
import { readFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'

// Problem is an error response. `type` is that of docs/http.md. A transient one may go if the request is repeated.
export class Problem extends Error {
  constructor (status, body, retryAfter) {
    const fields = (body.errors ?? []).map(e => `; ${e.location}: ${e.message}`)
    super(`${body.title ?? 'the request failed'} (${status})${body.detail ? `: ${body.detail}` : ''}${fields.join('')}`)
    const transient = status >= 500 || [408, 429].includes(status) || body.type === 'urn:dbq:problem:locked'
    Object.assign(this, { type: body.type, transient, retryAfter: Number(retryAfter) || 0 })
  }
}

// Outcome is what a handler throws or returns to choose the outcome: new Outcome('retry', { delay_seconds: 60 }).
export class Outcome extends Error {
  constructor (outcome, fields = {}) {
    super(outcome)
    this.fields = { outcome, ...fields }
  }
}

// Client calls the API for a queue. The token is the option, the text in the file $DBQ_TOKEN_FILE, or $DBQ_TOKEN.
export class Client {
  constructor (queue, { url = 'http://127.0.0.1:8321', database = 'default', token } = {}) {
    this.token = token
    this.path = `${url.replace(/\/+$/, '')}/v1/db/${database}/queues/${encodeURIComponent(queue)}/`
  }

  // call sends a request. It throws a Problem, or another error if no response arrives.
  async call (path, body, timeout = 90) {
    const headers = { 'Content-Type': 'application/json' }
    const file = process.env.DBQ_TOKEN_FILE // read each time, as it may be replaced
    const token = this.token ?? (file ? (await readFile(file, 'utf8')).trim() : process.env.DBQ_TOKEN)
    if (token) headers.Authorization = `Bearer ${token}`
    const late = new AbortController() // AbortSignal.timeout would let a process end while it waits for the response
    const timer = setTimeout(() => late.abort(new Error('no response in time')), Math.ceil(timeout * 1000))
    try {
      const request = { method: 'POST', headers, signal: late.signal, body: encode(body) }
      const response = await fetch(this.path + path, request)
      const out = /json/.test(response.headers.get('Content-Type')) ? await response.json() : {}
      const problem = response.ok ? out.settled?.[0].problem : out
      if (problem) throw new Problem(problem.status ?? response.status, problem, response.headers.get('Retry-After'))
      return out
    } finally {
      clearTimeout(timer)
    }
  }

  // repeat calls until the request succeeds or is refused, the signal is aborted, or `patience` seconds have passed.
  // A call waits for `timeout` seconds. By default that is a third of the patience, but 10 to 90 seconds.
  async repeat (path, body, { signal, patience = Infinity, timeout = Math.min(Math.max(patience / 3, 10), 90) } = {}) {
    const end = performance.now() + patience * 1000
    for (let pause = 0.1; ; pause = Math.min(pause * 2, 10)) {
      try {
        return await this.call(path, body, timeout)
      } catch (e) {
        if (e.transient === false || signal?.aborted || performance.now() > end) throw e
        console.warn(`dbq: ${path} is repeated: ${e.cause?.message ?? e.message}`)
        const wait = Math.max(pause, Math.min(e.retryAfter ?? 0, 60)) * (1000 + Math.random() * 500)
        await sleep(wait, null, { signal }).catch(() => {})
      }
    }
  }

  // enqueue adds all of the tasks or none. A task is an object of the API's fields. It returns an object for each: its
  // id and, if it existed before, duplicate: true. While the server is away, it is repeated for `patience` seconds.
  async enqueue (tasks, patience = 30) {
    const named = tasks.map(t => ({ reference: crypto.randomUUID(), ...t })) // a reference makes it repeatable
    const out = (await this.repeat('tasks/batch', { tasks: named }, { patience })).tasks
    return tasks.map((t, i) => t.reference ?? t.id ?? t.unique ? out[i] : { id: out[i].id })
  }
}

// Worker calls handler(task) for up to `concurrency` tasks at once. What the handler returns becomes the task's result.
// A task has the API's fields. task.payload is text, or a Buffer if it is not UTF-8. Heartbeats store task.progress, a
// text. If the lease is lost they abort task.signal: the handler should then return.
export class Worker {
  constructor (client, handler, options = {}) {
    const defaults = { concurrency: 10, leaseSeconds: 30, waitSeconds: 5, drainSeconds: 30, name: 'node' }
    Object.assign(this, defaults, options, { client, handler, tasks: new Set(), renewing: null })
    Object.assign(this, { stopping: new AbortController(), ended: new AbortController() })
  }

  // run works until SIGTERM or stopping.abort(), then drains. It throws a Problem if the server refuses a checkout.
  async run () {
    const { tasks, drainSeconds, stopping: { signal } } = this
    signal.addEventListener('abort', () => this.changed?.())
    process.once('SIGTERM', () => this.stopping.abort())
    this.#heartbeat()
    try {
      while (!signal.aborted) {
        const max = this.concurrency - tasks.size
        if (max > 0) await this.#checkout(max, signal).catch(e => { if (!signal.aborted) throw e })
        else await new Promise(resolve => { this.changed = resolve }) // a race would keep a reaction for each task
      }
    } finally {
      await Promise.race([Promise.all([...tasks].map(t => t.done)), sleep(drainSeconds * 1000, null, { ref: false })])
      for (const task of tasks) { // their handlers are too slow
        await this.#settle(task, { outcome: 'release' }, 1)
        task.lost.abort()
      }
      this.ended.abort()
    }
  }

  async #checkout (max, signal) {
    const body = { max, lease_seconds: this.leaseSeconds, wait_seconds: this.waitSeconds, worker: this.name }
    for (const task of (await this.client.repeat('checkout', body, { signal })).tasks) {
      const [lost, until] = [new AbortController(), performance.now() + this.leaseSeconds * 1000]
      if (task.payload_base64) task.payload = Buffer.from(task.payload_base64, 'base64')
      this.tasks.add(Object.assign(task, { lost, until, signal: lost.signal }))
      task.done = this.#work(task)
    }
  }

  async #work (task) {
    const complete = result => result instanceof Outcome ? result : new Outcome('complete', { result })
    const fail = e => e instanceof Outcome ? e : new Outcome('fail', { error: textOf(e) })
    const { fields } = await Promise.resolve(task).then(this.handler).then(complete).catch(fail)
    await this.#settle(task, fields)
    if (this.tasks.delete(task)) this.changed?.()
  }

  async #settle (task, fields, patience) {
    await this.renewing // it may change the lease
    const [lease, timeout] = [leaseOf(task), this.leaseSeconds / 3]
    const options = { signal: this.ended.signal, patience, timeout }
    if (!task.lease || task.signal.aborted) return
    task.lease = null
    const settle = fields => this.client.repeat('settle', { settlements: [{ ...lease, ...fields }] }, options)
    await settle(fields).catch(e => {
      if (e.transient !== false) throw e
      return settle({ outcome: 'fail', error: `the outcome cannot be stored: ${e.message}` })
    }).catch(e => console.warn(`dbq: task ${task.id} is not settled: ${e.message}`)) // until the lease has expired
  }

  async #heartbeat (seconds = this.leaseSeconds / 3) {
    while (await sleep(seconds * 1000, true, { signal: this.ended.signal }).catch(() => false)) {
      const tasks = [...this.tasks].filter(t => t.lease && !t.signal.aborted)
      if (tasks.length > 0) await (this.renewing = this.#renew(tasks, seconds))
    }
  }

  async #renew (tasks, timeout) {
    const begin = performance.now()
    const body = { lease_seconds: this.leaseSeconds, leases: tasks.map(leaseOf) }
    const warn = e => console.warn(`dbq: the heartbeat failed: ${e.cause?.message ?? e.message}`)
    const leases = (await this.client.call('extend', body, timeout).catch(warn))?.leases ?? []
    tasks.forEach((task, i) => {
      const { lease, problem } = leases[i] ?? {}
      if (lease) Object.assign(task, { lease, until: begin + this.leaseSeconds * 1000 })
      else if (problem || performance.now() > task.until) task.lost.abort()
    })
  }
}

const textOf = value => { try { return String(value) } catch { return `a ${typeof value} without a text` } }
const encode = x => { try { return JSON.stringify(x) } catch (e) { throw new Problem(400, { title: textOf(e) }) } }
const leaseOf = task => ({ lease: task.lease, progress: textOf(task.progress ?? '').slice(0, 1000) }) // 4000 bytes
