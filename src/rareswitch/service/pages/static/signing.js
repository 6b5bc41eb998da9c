// Signs a form with a passkey, and adds a passkey to the account. Passwords work without this file.

const decode = (text) => Uint8Array.from(
  atob(text.replace(/-/g, "+").replace(/_/g, "/").padEnd(Math.ceil(text.length / 4) * 4, "=")),
  (sign) => sign.charCodeAt(0));
const encode = (buffer) => btoa(String.fromCharCode(...new Uint8Array(buffer)))
  .replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

function tell(form, words) {
  const place = form.querySelector(".problem");
  place.textContent = words;
  place.hidden = !words;
}

async function asked(address, options = {}) {
  const answer = await fetch(address, {
    credentials: "same-origin", ...options, headers: { Accept: "application/json", ...options.headers },
  });
  const body = await answer.json();
  if (!answer.ok) throw new Error(body.detail || body.title || `The service answered ${answer.status}.`);
  return body;
}

// Requests the challenge of a decision, with the form fields that the signature covers.
async function challengeOf(button, form) {
  const fields = new FormData(form);
  fields.delete("password");
  fields.set("decision", button.dataset.decision);
  if (button.dataset.number) fields.set("number", button.dataset.number);
  return asked(button.dataset.signing, { method: "POST", body: new URLSearchParams(fields) });
}

async function sign(button) {
  const form = button.form;
  tell(form, "");
  if (!form.elements.reason.reportValidity()) return;
  button.disabled = true;
  try {
    const subject = await challengeOf(button, form);
    const credential = await navigator.credentials.get({ publicKey: {
      challenge: decode(subject.challenge),
      rpId: location.hostname,
      userVerification: "required",
      allowCredentials: button.dataset.credentials.split(" ").map((id) => ({ type: "public-key", id: decode(id) })),
    } });
    const { authenticatorData, clientDataJSON, signature } = credential.response;
    form.elements.head.value = subject.head;
    form.elements.credential.value = encode(credential.rawId);
    form.elements.authenticator_data.value = encode(authenticatorData);
    form.elements.client_data.value = encode(clientDataJSON);
    form.elements.signature.value = encode(signature);
    if (form.elements.password) form.elements.password.value = "";
    form.submit();
  } catch (error) {
    button.disabled = false;
    tell(form, `Not signed: ${error.message}`);
  }
}

async function add(button) {
  const form = button.form;
  tell(form, "");
  if (!form.reportValidity()) return;
  button.disabled = true;
  try {
    const options = await asked(form.dataset.options, { method: "POST", body: new URLSearchParams(new FormData(form)) });
    const key = options.publicKey || options;
    const credential = await navigator.credentials.create({ publicKey: {
      ...key,
      challenge: decode(key.challenge),
      user: { ...key.user, id: decode(key.user.id) },
      excludeCredentials: (key.excludeCredentials || []).map((one) => ({ ...one, id: decode(one.id) })),
    } });
    form.elements.answer.value = JSON.stringify({
      id: credential.id,
      rawId: encode(credential.rawId),
      type: credential.type,
      response: {
        attestationObject: encode(credential.response.attestationObject),
        clientDataJSON: encode(credential.response.clientDataJSON),
        transports: credential.response.getTransports?.() ?? [],
      },
      clientExtensionResults: credential.getClientExtensionResults(),
    });
    form.submit();
  } catch (error) {
    button.disabled = false;
    tell(form, `No passkey was added: ${error.message}`);
  }
}

function prepare() {
  for (const [selector, act] of [["button.passkey", sign], ["button.passkey-add", add]]) {
    for (const button of document.querySelectorAll(selector)) {
      button.hidden = false;
      button.onclick = () => act(button);
    }
  }
}

if (window.PublicKeyCredential) {
  prepare();
  document.addEventListener("replaced", prepare);
}
