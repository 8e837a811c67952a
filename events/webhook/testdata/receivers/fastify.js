import Fastify from 'fastify'
import { Webhook } from 'standardwebhooks'
import { store } from './store.js'

const app = Fastify({ bodyLimit: 16 << 20 })
const hook = new Webhook(process.env.SECRET)
app.removeAllContentTypeParsers()
app.addContentTypeParser('*', { parseAs: 'buffer' }, (req, body, done) => done(null, body))
app.post('/events', async (req, reply) => {
  let event
  try {
    event = hook.verify(req.body, req.headers)
  } catch {
    return reply.code(401).send()
  }
  await store(event) // before the answer, and once for each event.id
  return reply.code(204).send()
})
app.listen({ port: Number(process.env.PORT), host: '127.0.0.1' })
