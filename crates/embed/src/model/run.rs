//! Running the network of a model.

use std::sync::Arc;

use rten::{Model, ModelOptions, NodeId, RunOptions, ThreadPool, Value, ValueOrView};
use rten_tensor::NdTensor;
use rten_tensor::prelude::*;

/// An encoder: tokens in, a vector for each token or one for all out.
pub(super) struct Network {
    model: Model,
    tokens: NodeId,
    mask: Option<NodeId>,
    kinds: Option<NodeId>,
    output: NodeId,
    /// One thread: a gateway has more to do than this.
    threads: Arc<ThreadPool>,
}

// === impl Network ===

impl Network {
    pub(super) fn load(content: Vec<u8>) -> Result<Self, String> {
        let model = ModelOptions::with_all_ops().load(content).map_err(|error| error.to_string())?;
        let tokens = model.node_id("input_ids").map_err(|error| error.to_string())?;
        let (mask, kinds) = (model.find_node("attention_mask"), model.find_node("token_type_ids"));
        let known = [Some(tokens), mask, kinds];
        if model.input_ids().iter().any(|input| !known.contains(&Some(*input))) {
            return Err("it wants other inputs than `input_ids`, `attention_mask` and `token_type_ids`".to_owned());
        }
        let output = *model.output_ids().first().ok_or("it has no output")?;
        Ok(Self { model, tokens, mask, kinds, output, threads: Arc::new(ThreadPool::with_num_threads(1)) })
    }

    /// The mean of the tokens' vectors, of length 1.
    pub(super) fn embed(&self, tokens: &[i32]) -> Result<Vec<f32>, String> {
        let row = |of: &dyn Fn(i32) -> i32| -> ValueOrView<'static> {
            let values: Vec<i32> = tokens.iter().map(|token| of(*token)).collect();
            NdTensor::from_data([1, values.len()], values).into_dyn().into()
        };
        let mut inputs = vec![(self.tokens, row(&|token| token))];
        inputs.extend(self.mask.map(|mask| (mask, row(&|_| 1))));
        inputs.extend(self.kinds.map(|kinds| (kinds, row(&|_| 0))));
        let options = RunOptions::default().with_thread_pool(Some(Arc::clone(&self.threads)));
        let outputs = self.model.run(inputs, &[self.output], Some(options)).map_err(|error| error.to_string())?;
        let Some(Value::FloatTensor(output)) = outputs.into_iter().next() else {
            return Err("its output is no tensor of floats".to_owned());
        };
        let shape = output.shape().to_vec();
        let (&width, rows) = shape.split_last().ok_or("its output is a single number")?;
        let rows: usize = rows.iter().product();
        if width == 0 || rows == 0 {
            return Err("its output is empty".to_owned());
        }
        let mut sum = vec![0.0_f32; width];
        for (at, value) in output.to_vec().into_iter().enumerate() {
            sum[at % width] += value;
        }
        let length = sum.iter().map(|value| value * value).sum::<f32>().sqrt();
        if !length.is_normal() {
            return Err("its output is no vector".to_owned());
        }
        sum.iter_mut().for_each(|value| *value /= length);
        Ok(sum)
    }
}
