"""Real model families built from small configurations, unmodified, at generic weights.

Widths are chosen so that no layer and no output is narrower than the stream it reads; images and
sequences are a few pixels and tokens, and there are as many samples as the rank of the Jacobian
takes to saturate. `outputs` names what must be preserved: not the hidden states that a model also
returns, which would pin its stream.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn
from transformers.utils import logging

from paramsym.network.call import arguments_of, call, outputs_of, to_float64
from paramsym.network.function import ModelFunction
from zoo.models import calibrate

Inputs = Callable[[int, torch.Generator], Any]

logging.set_verbosity_error()

WIDTH, HEADS, INNER, TOKENS, LENGTH = 8, 2, 10, 11, 4
# For blocks whose MLP reads the token alone: more tokens than its weights can tell apart.
MANY = 32


@dataclass(frozen=True)
class Family:
    """One architecture: how to build it, what to feed it, which of its outputs matter."""

    name: str
    build: Callable[[], nn.Module]
    inputs: Inputs
    outputs: tuple[str, ...] = ()
    share: float = 2.0
    pieces: tuple[Inputs, ...] = ()

    def model(self, *, train: bool = False) -> nn.Module:
        """The model in float64 with every parameter and buffer at a generic value."""
        torch.manual_seed(0)
        model = self.build().double()
        randomise(model)
        calibrate(model, self.x(64), seed=0)
        return model.train(train)

    def x(self, batch: int, seed: int = 0) -> Any:
        """`batch` generic inputs."""
        return self.inputs(batch, torch.Generator().manual_seed(1000 + seed))

    def many(self, model: nn.Module) -> list[Any]:
        """Batches on which the rank of the Jacobian has saturated.

        `share` is the number of output entries a parameter, `pieces` are batches made on purpose.
        """
        generator = torch.Generator().manual_seed(1000)
        if self.pieces:
            return [piece(1, generator) for piece in self.pieces]
        few = self.function(model, self.x(4))
        entries = few.stacked(few.state).numel() / 4
        size = sum(p.numel() for p in model.parameters())
        return [self.x(8 + math.ceil(self.share * size / entries))]

    def positions(self, model: nn.Module) -> list[int] | None:
        """The positions of the outputs that matter among all that the model returns."""
        if not self.outputs:
            return None
        result = call(to_float64(model), {}, self.x(2), seed=0)
        assert isinstance(result, Mapping)
        names = [name for name, value in result.items() for _ in outputs_of(value)]
        return [place for place, name in enumerate(names) if name in self.outputs]

    def function(self, model: nn.Module, x: Any) -> ModelFunction:
        """The outputs that matter, as a function of the parameters."""
        return ModelFunction.of(model, x, selected=self.positions(model))

    def loaded(self, model: nn.Module, x: Any, state: dict[str, Tensor]) -> list[Tensor]:
        """The outputs that matter, of a copy of the module into which a state is loaded."""
        twin = to_float64(model)
        twin.load_state_dict(state)
        torch.manual_seed(0)
        args, kwargs = arguments_of(x)
        with torch.no_grad():
            result = twin(*args, **kwargs)
        return outputs_of([result[name] for name in self.outputs] if self.outputs else result)


# ------------------------------------------------------------------------------ generic values


def randomise(model: nn.Module, seed: int = 0) -> None:
    """Gains near one, biases and shifts of 0.3, weights that keep the size of what they read."""
    generator = torch.Generator().manual_seed(seed)
    convolutions = {
        id(p)
        for module in model.modules()
        if isinstance(module, (nn.Conv1d, nn.Conv2d))
        for p in module.parameters()
    }
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, dtype=p.dtype, generator=generator)
            if name.endswith("A_log"):
                p.add_(0.3 * noise)
            elif p.dim() < 2:
                p.copy_(0.3 * noise + (0.0 if "bias" in name else 1.0))
            elif "embed" in name or "token" in name:
                p.copy_(noise)
            else:
                fan_in = p.numel() // len(p) if id(p) in convolutions else p.shape[-1]
                p.copy_(noise / math.sqrt(fan_in))
        for name, buffer in model.named_buffers():
            if name.endswith("running_mean"):
                buffer.normal_(0.0, 0.3, generator=generator)
            elif name.endswith("running_var"):
                buffer.uniform_(0.5, 1.5, generator=generator)


# -------------------------------------------------------------------------------------- inputs


def normal(name: str, *shape: int) -> Inputs:
    """One floating tensor of standard normal entries, by keyword."""
    return lambda batch, g: {name: torch.randn(batch, *shape, dtype=torch.float64, generator=g)}


def plain(*shape: int) -> Inputs:
    """One floating tensor of standard normal entries."""
    return lambda batch, g: torch.randn(batch, *shape, dtype=torch.float64, generator=g)


def tokens(
    name: str = "input_ids", length: int = LENGTH, least: int = 0, most: int = TOKENS
) -> Inputs:
    """Token ids from `least` on."""
    return lambda batch, g: {name: torch.randint(least, most, (batch, length), generator=g)}


def closed(length: int = LENGTH) -> Inputs:
    """Token ids that end with the highest one, which occurs nowhere else."""

    def inputs(batch: int, g: torch.Generator) -> dict[str, Tensor]:
        ids = torch.randint(0, TOKENS - 1, (batch, length), generator=g)
        ids[:, -1] = TOKENS - 1
        return {"input_ids": ids}

    return inputs


def padded(length: int = LENGTH, least: int = 0) -> Inputs:
    """Token ids with an attention mask that leaves out the end of some samples."""

    def inputs(batch: int, g: torch.Generator) -> dict[str, Tensor]:
        ids = torch.randint(least, TOKENS, (batch, length), generator=g)
        kept = torch.randint(2, length + 1, (batch, 1), generator=g)
        return {"input_ids": ids, "attention_mask": (torch.arange(length) < kept).long()}

    return inputs


def joined(*parts: Inputs) -> Inputs:
    """Several keyword inputs."""
    return lambda batch, g: {k: v for part in parts for k, v in part(batch, g).items()}


def times(factor: int, part: Inputs) -> Inputs:
    """A larger batch."""
    return lambda batch, g: part(factor * batch, g)


def tensors(*parts: Inputs) -> Inputs:
    """Several positional inputs."""
    return lambda batch, g: tuple(part(batch, g) for part in parts)


# ------------------------------------------------------------------------------------ decoders

STREAM = {"hidden_size": WIDTH, "vocab_size": TOKENS, "use_cache": False}
LAYERS = {"num_hidden_layers": 1, "num_attention_heads": HEADS, "intermediate_size": INNER}
GROUPED = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4}


def gpt2() -> nn.Module:
    """Learned positions, packed qkv, tied head."""
    config = hf.GPT2Config(
        vocab_size=TOKENS,
        n_positions=LENGTH,
        n_embd=WIDTH,
        n_layer=2,
        n_head=HEADS,
        n_inner=INNER,
        use_cache=False,
    )
    return hf.GPT2LMHeadModel(config)


def llama() -> nn.Module:
    """RMSNorm, RoPE, SwiGLU, grouped queries."""
    config = hf.LlamaConfig(**STREAM, **LAYERS | GROUPED, attention_dropout=0.1)
    return hf.LlamaForCausalLM(config)


def mistral() -> nn.Module:
    """Llama with a sliding window."""
    config = hf.MistralConfig(**STREAM, **LAYERS | GROUPED, sliding_window=2, attention_dropout=0.1)
    return hf.MistralForCausalLM(config)


def qwen3() -> nn.Module:
    """Norms on queries and keys."""
    config = hf.Qwen3Config(**STREAM, **LAYERS | GROUPED, attention_dropout=0.1)
    return hf.Qwen3ForCausalLM(config)


def gemma2() -> nn.Module:
    """Norms before and after each branch, soft caps, a tied head."""
    config = hf.Gemma2Config(
        **STREAM,
        **LAYERS | GROUPED | {"num_hidden_layers": 2},
        query_pre_attn_scalar=4,
        sliding_window=2,
        attention_dropout=0.1,
        pad_token_id=None,
        final_logit_softcapping=3.0,
        attn_logit_softcapping=2.0,
    )
    return hf.Gemma2ForCausalLM(config)


def phi() -> nn.Module:
    """Parallel branches behind one LayerNorm, half of each head rotated."""
    config = hf.PhiConfig(
        **STREAM | {"vocab_size": MANY}, **LAYERS, attention_dropout=0.1, resid_pdrop=0.1
    )
    return hf.PhiForCausalLM(config)


def gpt_neox() -> nn.Module:
    """Parallel branches behind two LayerNorms, packed qkv, half of each head rotated."""
    rope = {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}
    config = hf.GPTNeoXConfig(
        **STREAM | {"vocab_size": MANY}, **LAYERS, hidden_dropout=0.1, rope_parameters=rope
    )
    return hf.GPTNeoXForCausalLM(config)


def mixtral() -> nn.Module:
    """Experts behind a router that keeps two of three."""
    config = hf.MixtralConfig(
        **STREAM,
        **LAYERS | GROUPED,
        num_local_experts=3,
        num_experts_per_tok=2,
        attention_dropout=0.1,
    )
    return hf.MixtralForCausalLM(config)


def mamba() -> nn.Module:
    """A selective state space model."""
    config = hf.MambaConfig(
        **STREAM,
        num_hidden_layers=1,
        state_size=3,
        expand=1,
        conv_kernel=2,
        time_step_rank=2,
        pad_token_id=None,
    )
    return hf.MambaForCausalLM(config)


# ------------------------------------------------------------------------------------ encoders


def bert() -> nn.Module:
    """Post-norm encoder, masked language model."""
    config = hf.BertConfig(
        **STREAM,
        **LAYERS,
        max_position_embeddings=LENGTH,
        type_vocab_size=2,
        layer_norm_eps=1e-5,
        pad_token_id=None,
    )
    return hf.BertForMaskedLM(config)


def roberta() -> nn.Module:
    """BERT whose positions start after the padding token."""
    config = hf.RobertaConfig(
        **STREAM,
        **LAYERS,
        max_position_embeddings=LENGTH + 1,
        type_vocab_size=1,
        layer_norm_eps=1e-5,
        pad_token_id=0,
        num_labels=9,
    )
    return hf.RobertaForTokenClassification(config)


def distilbert() -> nn.Module:
    """BERT without token types."""
    config = hf.DistilBertConfig(
        vocab_size=TOKENS,
        max_position_embeddings=LENGTH,
        n_layers=1,
        n_heads=HEADS,
        dim=WIDTH,
        hidden_dim=INNER,
        pad_token_id=None,
        num_labels=9,
    )
    return hf.DistilBertForTokenClassification(config)


# ------------------------------------------------------------------------- encoder and decoder


def t5() -> nn.Module:
    """RMSNorm, relative position biases shared by all layers, scaled tied head."""
    config = hf.T5Config(
        vocab_size=TOKENS,
        d_model=WIDTH,
        d_kv=4,
        d_ff=INNER,
        num_layers=1,
        num_decoder_layers=1,
        num_heads=HEADS,
        relative_attention_num_buckets=4,
        relative_attention_max_distance=4,
        feed_forward_proj="gated-gelu",
        use_cache=False,
        pad_token_id=None,
    )
    return hf.T5ForConditionalGeneration(config)


def bart() -> nn.Module:
    """Post-norm encoder and decoder with cross attention."""
    config = hf.BartConfig(
        vocab_size=TOKENS,
        max_position_embeddings=LENGTH,
        encoder_layers=1,
        decoder_layers=1,
        encoder_ffn_dim=INNER,
        decoder_ffn_dim=INNER,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        d_model=WIDTH,
        use_cache=False,
        pad_token_id=None,
    )
    return hf.BartForConditionalGeneration(config)


def whisper() -> nn.Module:
    """Convolutions, sinusoidal positions, a decoder with keys that have no bias."""
    config = hf.WhisperConfig(
        vocab_size=TOKENS,
        num_mel_bins=4,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=INNER,
        decoder_ffn_dim=INNER,
        d_model=WIDTH,
        max_source_positions=3,
        max_target_positions=LENGTH,
        use_cache=False,
        pad_token_id=None,
        dropout=0.1,
    )
    return hf.WhisperForConditionalGeneration(config)


# -------------------------------------------------------------------------- images and signals


def vit() -> nn.Module:
    """Patches, a class token, pre-norm encoder."""
    config = hf.ViTConfig(
        hidden_size=WIDTH,
        **LAYERS | {"num_hidden_layers": 2},
        image_size=4,
        patch_size=2,
        num_channels=2,
        num_labels=9,
        layer_norm_eps=1e-5,
        hidden_dropout_prob=0.1,
    )
    return hf.ViTForImageClassification(config)


def clip() -> nn.Module:
    """Two towers whose normalised embeddings meet in one product."""
    tower = {"hidden_size": 6, **LAYERS, "num_hidden_layers": 2, "intermediate_size": 7}
    config = hf.CLIPConfig(
        text_config={
            **tower,
            "projection_dim": 7,
            "vocab_size": TOKENS,
            "max_position_embeddings": LENGTH,
            "eos_token_id": TOKENS - 1,
            "pad_token_id": None,
            "attention_dropout": 0.1,
        },
        vision_config={
            **tower,
            "projection_dim": 7,
            "image_size": 4,
            "patch_size": 2,
            "num_channels": 2,
            "attention_dropout": 0.1,
        },
        projection_dim=7,
    )
    return hf.CLIPModel(config)


def wav2vec2() -> nn.Module:
    """A convolutional front with group norm, weight-normalised convolutional positions."""
    config = hf.Wav2Vec2Config(
        hidden_size=WIDTH,
        **LAYERS,
        vocab_size=TOKENS,
        conv_dim=(9, 9),
        conv_stride=(2, 2),
        conv_kernel=(4, 2),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=3,
        num_conv_pos_embedding_groups=2,
        mask_time_prob=0.0,
        layerdrop=0.0,
        pad_token_id=None,
    )
    return hf.Wav2Vec2ForCTC(config)


def convnext() -> nn.Module:
    """Depthwise convolutions, channel LayerNorm, layer scales."""
    config = hf.ConvNextConfig(
        num_channels=2,
        patch_size=2,
        hidden_sizes=[4, 6],
        depths=[1, 1],
        num_stages=2,
        num_labels=9,
        image_size=16,
        layer_norm_eps=1e-5,
        drop_path_rate=0.2,
    )
    return hf.ConvNextForImageClassification(config)


def resnet() -> nn.Module:
    """Basic residual blocks with batch norm and ReLU."""
    config = hf.ResNetConfig(
        num_channels=2,
        embedding_size=4,
        hidden_sizes=[4, 5],
        depths=[1, 1],
        layer_type="basic",
        num_labels=7,
    )
    return hf.ResNetForImageClassification(config)


def mobilenet_v2(activation: str) -> Callable[[], nn.Module]:
    """Inverted residuals with linear bottlenecks and depthwise convolutions."""

    def build() -> nn.Module:
        config = hf.MobileNetV2Config(
            num_channels=2,
            image_size=64,
            depth_multiplier=0.01,
            depth_divisible_by=2,
            min_depth=2,
            expand_ratio=2,
            finegrained_output=False,
            hidden_act=activation,
            num_labels=7,
            classifier_dropout_prob=0.1,
        )
        return hf.MobileNetV2ForImageClassification(config)

    return build


def segformer() -> nn.Module:
    """Overlapping patches, attention on a reduced grid, a decoder over all stages."""
    config = hf.SegformerConfig(
        num_channels=2,
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[4, 6],
        patch_sizes=[3, 3],
        strides=[2, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=7,
        num_labels=9,
        drop_path_rate=0.2,
    )
    return hf.SegformerForSemanticSegmentation(config)


# --------------------------------------------------------------------------------- plain torch


class Chain(nn.Module):
    """Linear layers around a sequence model, so that its ends are inner spaces."""

    def __init__(self, body: nn.Module, before: int, width: int, after: int) -> None:
        super().__init__()
        self.first = nn.Linear(before, width)
        self.body = body
        self.last = nn.Linear(after, after + 1)

    def forward(self, x: Tensor) -> Tensor:
        """Of what a recurrent body returns, the sequence of states."""
        y = self.body(self.first(x))
        return self.last(y[0] if isinstance(y, tuple) else y)


def encoder(norm_first: bool) -> Callable[[], nn.Module]:
    """Two layers of `nn.TransformerEncoder`."""

    def build() -> nn.Module:
        layer = nn.TransformerEncoderLayer(
            WIDTH, HEADS, INNER, 0.1, nn.functional.gelu, batch_first=True, norm_first=norm_first
        )
        norm = nn.LayerNorm(WIDTH) if norm_first else None
        body = nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False)
        return Chain(body, WIDTH + 1, WIDTH, WIDTH)

    return build


def transformer() -> nn.Module:
    """`nn.Transformer`, encoder and decoder."""
    return nn.Transformer(WIDTH, HEADS, 1, 1, INNER, 0.1, nn.functional.gelu, batch_first=True)


def lstm() -> nn.Module:
    """Two stacked layers."""
    return Chain(nn.LSTM(4, 4, 2, batch_first=True, dropout=0.1), 5, 4, 4)


def gru() -> nn.Module:
    """Two stacked layers, both directions."""
    body = nn.GRU(4, 4, 2, batch_first=True, dropout=0.1, bidirectional=True)
    return Chain(body, 5, 4, 8)


class UNet(nn.Module):
    """Two scales with group norm and a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.down = self._block(2, 4)
        self.deep = self._block(4, 6)
        self.up = nn.ConvTranspose2d(6, 4, 2, stride=2)
        self.join = self._block(8, 4)
        self.head = nn.Conv2d(4, 5, 1)

    def _block(self, before: int, after: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(2, after), nn.SiLU()
        )

    def forward(self, x: Tensor) -> Tensor:
        """Down, deep, up, joined with what was there before."""
        skip = self.down(x)
        deep = self.up(self.deep(nn.functional.avg_pool2d(skip, 2)))
        return self.head(self.join(torch.cat([skip, deep], dim=1)))


class CrossAttention(nn.Module):
    """`nn.MultiheadAttention` from one sequence to another."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, 0.1, batch_first=True)

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        """What x reads of y."""
        return self.attention(x, y, y)[0]


SPECTROGRAM = normal("input_features", 4, 6)
IMAGE = normal("pixel_values", 2, 4, 4)
LARGE = normal("pixel_values", 2, 64, 64)
LOGITS = ("logits",)

FAMILIES: tuple[Family, ...] = (
    Family("gpt2", gpt2, tokens(), LOGITS),
    Family("llama", llama, tokens(), LOGITS),
    Family("mistral", mistral, tokens(), LOGITS, share=3.0),
    Family("qwen3", qwen3, tokens(), LOGITS),
    Family("gemma2", gemma2, tokens(), LOGITS),
    Family("phi", phi, tokens(most=MANY), LOGITS, share=4.0),
    Family("gpt-neox", gpt_neox, tokens(most=MANY), LOGITS, share=4.0),
    Family("mixtral", mixtral, tokens(), LOGITS, share=1.7),
    Family("mamba", mamba, tokens(), LOGITS),
    Family("bert", bert, padded(), LOGITS),
    Family("roberta", roberta, tokens(least=1), LOGITS),
    Family("distilbert", distilbert, padded(), LOGITS),
    Family("t5", t5, joined(tokens(), tokens("decoder_input_ids", 3)), LOGITS),
    Family("bart", bart, joined(tokens(), tokens("decoder_input_ids", 3)), LOGITS),
    Family("whisper", whisper, joined(SPECTROGRAM, tokens("decoder_input_ids", 3)), LOGITS),
    Family("vit", vit, IMAGE, LOGITS),
    Family(
        "clip",
        clip,
        joined(closed(), IMAGE),
        ("logits_per_image",),
        # Every image meets every text: few of one kind suffice to see many of the other.
        pieces=(
            joined(times(8, closed()), times(180, IMAGE)),
            joined(times(180, closed()), times(8, IMAGE)),
        ),
    ),
    Family("wav2vec2", wav2vec2, normal("input_values", 20), LOGITS),
    Family("convnext", convnext, normal("pixel_values", 2, 16, 16), LOGITS),
    Family("resnet", resnet, normal("pixel_values", 2, 24, 24), LOGITS),
    Family("mobilenet-v2", mobilenet_v2("gelu"), LARGE, LOGITS, share=1.5),
    Family("mobilenet-v2-relu6", mobilenet_v2("relu6"), LARGE, LOGITS),
    Family("segformer", segformer, normal("pixel_values", 2, 16, 16), LOGITS),
    Family("transformer-encoder-pre", encoder(True), plain(3, WIDTH + 1)),
    Family("transformer-encoder-post", encoder(False), plain(3, WIDTH + 1)),
    Family("transformer", transformer, tensors(plain(3, WIDTH), plain(2, WIDTH))),
    Family("lstm", lstm, plain(4, 5)),
    Family("gru", gru, plain(4, 5)),
    Family("unet", UNet, plain(2, 8, 8)),
    Family("multihead-attention", CrossAttention, tensors(plain(3, WIDTH), plain(4, WIDTH))),
)


@dataclass(frozen=True)
class Leftover:
    """Flat directions of a family on many inputs, and those that no generator explains."""

    nullity: int
    unexplained: int
    words: str = ""


# In the words: γ and β are a norm's gain and shift, `along 1/γ` is the component of a reader's rows
# that the norm makes constant.
LEFTOVER: dict[str, Leftover] = {
    "gpt2": Leftover(336, 0),
    "llama": Leftover(102, 0),
    "mistral": Leftover(102, 0),
    "qwen3": Leftover(96, 0),
    "gemma2": Leftover(132, 0),
    "phi": Leftover(234, 0),
    "gpt-neox": Leftover(218, 0),
    "mixtral": Leftover(130, 20, "scales of each expert's own units: expert 0's cannot differ"),
    "mamba": Leftover(24, 0),
    "bert": Leftover(
        203,
        9,
        "value bias 8, since a mask that is an input may hide all keys from a query, the tied "
        "table along 1/γ of the norm before the head, taken back by token types and a bias 1",
    ),
    "roberta": Leftover(220, 14, "rows for padding, which no input of the sample names"),
    "distilbert": Leftover(
        200, 11, "value bias 8, as in bert, scales broken by an eps of 1e-12 only 3"
    ),
    "t5": Leftover(268, 0),
    "bart": Leftover(484, 0),
    "whisper": Leftover(467, 0),
    "vit": Leftover(407, 0),
    "clip": Leftover(
        551,
        11,
        "all tokens, and the class, against their positions 10, gains of the norm in front of the "
        "vision stream that leave the spectrum of P diag(γ) P alone (P: off the ones) with "
        "rotations on both sides 1",
    ),
    "wav2vec2": Leftover(206, 0),
    "convnext": Leftover(176, 0),
    "resnet": Leftover(50, 0),
    "mobilenet-v2": Leftover(254, 0),
    "segformer": Leftover(
        521,
        36,
        "kernels behind a LayerNorm and in front of a border of zeros: moves along 1/γ whose sums "
        "over the offsets that a window sees are alike at the border and inside",
    ),
    "transformer-encoder-pre": Leftover(388, 0),
    "transformer-encoder-post": Leftover(
        309, 8, "I + 1wᵀ on the stream that attention reads before any norm"
    ),
    "transformer": Leftover(375, 0),
    "lstm": Leftover(52, 0),
    "gru": Leftover(52, 0),
    "unet": Leftover(22, 0),
    "multihead-attention": Leftover(80, 0),
}
